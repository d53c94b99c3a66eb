// Reads `.safetensors` files: the length of a header (8 bytes), the header (JSON), and the tensors' bytes.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opbridge/error.h"
#include "opbridge/frontend.h"
#include "support/json.h"

namespace opbridge {
namespace {

constexpr size_t length_bytes = 8;
constexpr uint64_t longest_header = 100'000'000;  // as in the package safetensors

// The names are those of Dtype in safetensors/src/tensor.rs.
constexpr std::pair<std::string_view, ElementType> element_types[] = {
    {"BOOL", ElementType::boolean},
    {"U8", ElementType::uint8},
    {"I8", ElementType::int8},
    {"U16", ElementType::uint16},
    {"I16", ElementType::int16},
    {"U32", ElementType::uint32},
    {"I32", ElementType::int32},
    {"U64", ElementType::uint64},
    {"I64", ElementType::int64},
    {"F16", ElementType::float16},
    {"BF16", ElementType::bfloat16},
    {"F32", ElementType::float32},
    {"F64", ElementType::float64},
    {"C64", ElementType::complex64},
    {"F8_E4M3", ElementType::float8e4m3fn},
    {"F8_E4M3FNUZ", ElementType::float8e4m3fnuz},
    {"F8_E5M2", ElementType::float8e5m2},
    {"F8_E5M2FNUZ", ElementType::float8e5m2fnuz},
    {"F8_E8M0", ElementType::float8e8m0},
};

ElementType element_type_of(std::string_view dtype) {
  for (const auto& [name, type] : element_types) {
    if (name == dtype) return type;
  }
  return ElementType::undefined;
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorCode::invalid_file, "damaged .safetensors file: " + what);
}

uint64_t read_length(std::span<const std::byte> file) {
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= static_cast<uint64_t>(file[i]) << (8 * i);
  return length;
}

std::vector<int64_t> read_numbers(std::string_view name, json::Array list) {
  std::vector<int64_t> numbers;
  for (const json::Element element : list) {
    int64_t number = 0;
    if (element.get(number) != simdjson::SUCCESS || number < 0)
      damaged(fmt::format("a number of '{}' is not a natural number", name));
    numbers.push_back(number);
  }
  return numbers;
}

// Missing if it exceeds 64 bits.
std::optional<int64_t> byte_count(ElementType type, const std::vector<int64_t>& shape) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  auto count = static_cast<int64_t>(size_of(type));
  for (const int64_t size : shape) {
    if (size > std::numeric_limits<int64_t>::max() / count) return std::nullopt;
    count *= size;
  }
  return count;
}

struct Extent {
  int64_t begin;
  int64_t end;
  std::string_view name;
};

// Like the package safetensors, refuses bytes that belong to two tensors, or to none.
void check_extents(std::vector<Extent> extents, int64_t size) {
  std::ranges::sort(extents, {}, [](const Extent& each) { return std::pair(each.begin, each.end); });
  int64_t end = 0;
  for (const Extent& each : extents) {
    if (each.begin < end) damaged(fmt::format("'{}' overlaps another tensor", each.name));
    if (each.begin > end) damaged(fmt::format("the bytes before '{}' belong to no tensor", each.name));
    end = each.end;
  }
  if (end != size)
    damaged(fmt::format("it holds {} bytes of tensors, but its header describes {}", size, end));
}

std::map<std::string, StoredTensor> read(const WeightFile& file) {
  if (file.bytes.size() < length_bytes) damaged("it has no header");
  const uint64_t length = read_length(file.bytes);
  if (length > longest_header || length > file.bytes.size() - length_bytes)
    damaged(fmt::format("its header would take {} bytes", length));
  const std::span<const std::byte> data = file.bytes.subspan(length_bytes + length);
  const auto size_of_data = static_cast<int64_t>(data.size());
  simdjson::dom::parser parser;
  const auto header =
      json::as<json::Object>(json::parse(parser, file.bytes.subspan(length_bytes, length), "its header"));

  std::map<std::string, StoredTensor> tensors;
  std::vector<Extent> extents;
  for (const auto& [name, element] : header) {
    if (name == "__metadata__") continue;
    const auto described = json::as<json::Object>(element);
    const std::string_view dtype = json::string_field(described, "dtype");
    std::vector<int64_t> shape = read_numbers(name, json::array_field(described, "shape"));
    const std::vector<int64_t> offsets = read_numbers(name, json::array_field(described, "data_offsets"));
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > size_of_data)
      damaged(fmt::format("'{}' reaches outside the file", name));
    const int64_t size = offsets[1] - offsets[0];
    const ElementType type = element_type_of(dtype);
    if (type != ElementType::undefined && byte_count(type, shape) != size)
      damaged(fmt::format("'{}' has {} bytes, which contradicts its shape", name, size));
    const std::span<const std::byte> bytes =
        data.subspan(static_cast<size_t>(offsets[0]), static_cast<size_t>(size));
    const ir::Weight weight{type, std::move(shape), bytes, file.owner};
    if (!tensors.emplace(name, StoredTensor{std::string(dtype), weight}).second)
      damaged(fmt::format("two tensors are named '{}'", name));
    if (size > 0) extents.push_back({offsets[0], offsets[1], name});
  }
  check_extents(std::move(extents), size_of_data);
  return tensors;
}

}  // namespace

std::map<std::string, StoredTensor> read_safetensors(const WeightFile& file) {
  try {
    return read(file);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file.path.string(), error.message()));
  }
}

}  // namespace opbridge
