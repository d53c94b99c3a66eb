#include "onnx/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "onnx/field_reader.h"
#include "onnx/proto_fields.h"

namespace opbridge::onnx {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::invalid_file, what); }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

uint64_t parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    fail(fmt::format("external data: \"{}\" is not a number", text));
  }
  return value;
}

// Missing if the number of elements or of bytes overflows 64 bits.
std::optional<uint64_t> count_elements(const std::vector<int64_t>& dims) {
  constexpr int64_t most = int64_t{1} << 58;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim > most / count) return std::nullopt;
    count *= dim;
  }
  return static_cast<uint64_t>(count);
}

// Numbers from typed fields, stored as `width` bytes each.
class NumberBuffer {
 public:
  std::shared_ptr<std::vector<std::byte>> bytes = std::make_shared<std::vector<std::byte>>();

  void add(int64_t number, size_t width) {
    const auto* first = reinterpret_cast<const std::byte*>(&number);  // little-endian: low bytes first
    bytes->insert(bytes->end(), first, first + width);
  }
  void add(std::string_view raw) {
    const auto source = bytes_of(raw);
    bytes->insert(bytes->end(), source.begin(), source.end());
  }
};

// Whether a path is relative and has no `..`.
bool stays_below(const fs::path& path) {
  return !path.empty() && path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

NamedWeight TensorReader::read(std::string_view message) {
  using proto::Tensor;
  NamedWeight result;
  ir::Weight& weight = result.weight;
  std::optional<std::string_view> raw;
  std::optional<ExternalData> external;
  bool is_external = false;
  std::vector<std::string> strings;

  // The type determines the width of numbers and may come after them, so the message is read in two passes.
  int64_t type = 0;
  for (FieldReader<Tensor> field(message); field.next();) {
    switch (field.number()) {
      case Tensor::dims:
        field.integers([&](int64_t dim) {
          if (dim < 0) fail("a tensor has a negative dim");
          weight.dims.push_back(dim);
        });
        break;
      case Tensor::data_type:
        type = field.integer();
        break;
      case Tensor::name:
        result.name = field.bytes();
        break;
      case Tensor::segment:
        fail("a tensor is split into segments, which is not supported");
      case Tensor::raw_data:
        raw = field.bytes();
        break;
      case Tensor::external_data: {
        std::string_view key;
        std::string_view value;
        for (FieldReader<proto::StringStringEntry> entry(field.bytes()); entry.next();) {
          if (entry.number() == proto::StringStringEntry::key) key = entry.bytes();
          if (entry.number() == proto::StringStringEntry::value) value = entry.bytes();
        }
        if (!external) external.emplace();
        if (key == "location") external->location = value;
        if (key == "offset") external->offset = value;
        if (key == "length") external->length = value;
        break;
      }
      case Tensor::data_location:
        is_external = field.integer() == proto::data_location_external;
        break;
      default:
        break;
    }
  }
  weight.element_type = type > 0 && type < 256 ? static_cast<ElementType>(type) : ElementType::undefined;
  const bool is_string = weight.element_type == ElementType::string;
  const auto fail_here = [&](const std::string& what) {
    fail(fmt::format("tensor {} ({}[{}]): {}", result.name, name(weight.element_type),
                     fmt::join(weight.dims, ", "), what));
  };
  if (bits_of(weight.element_type) == 0 && !is_string)
    fail_here(fmt::format("unknown element type {}", type));

  const std::optional<uint64_t> count = count_elements(weight.dims);
  if (!count) fail_here("its dims are too large");
  if (is_external) {
    if (!external || external->location.empty()) fail_here("its external data has no location");
    read_external(*external, weight);
  } else if (raw) {
    weight.bytes = bytes_of(*raw);
    weight.owner = owner_;
  } else {
    NumberBuffer numbers;
    const size_t width = std::max<size_t>(size_of(weight.element_type), 1);  // sub-byte types come packed
    const auto add_integers = [&](FieldReader<Tensor>& field) {
      field.integers([&](int64_t number) { numbers.add(number, std::min<size_t>(width, 8)); });
    };
    for (FieldReader<Tensor> field(message); field.next();) {
      switch (field.number()) {
        case Tensor::float_data:
          numbers.add(field.fixed32s());
          break;
        case Tensor::double_data:
          numbers.add(field.fixed64s());
          break;
        case Tensor::int32_data:
        case Tensor::int64_data:
        case Tensor::uint64_data:
          add_integers(field);
          break;
        case Tensor::string_data:
          strings.emplace_back(field.bytes());
          break;
        default:
          break;
      }
    }
    weight.bytes = *numbers.bytes;
    weight.owner = numbers.bytes;
  }
  if (is_string) {
    if (is_external || raw) fail_here("strings cannot be raw or external data");
    if (strings.size() != *count) fail_here(fmt::format("it holds {} strings", strings.size()));
    weight = ir::Weight::of_strings(strings, std::move(weight.dims));
  } else if (weight.bytes.size() != storage_bytes(weight.element_type, *count)) {
    fail_here(fmt::format("it should take {} bytes and has {}", storage_bytes(weight.element_type, *count),
                          weight.bytes.size()));
  }
  return result;
}

void TensorReader::read_external(const ExternalData& data, ir::Weight& weight) {
  const std::shared_ptr<const support::MappedFile> file = external_file(data.location);
  const uint64_t size = file->bytes().size();
  const uint64_t offset = data.offset.empty() ? 0 : parse_number(data.offset);
  const uint64_t rest = offset <= size ? size - offset : 0;
  const uint64_t length = data.length.empty() ? rest : parse_number(data.length);
  if (offset > size || length > rest) {
    fail(fmt::format("external data {} ends before byte {} + {}", data.location, offset, length));
  }
  weight.bytes = file->bytes().subspan(offset, length);
  weight.owner = file;
}

std::vector<fs::path> TensorReader::external_files() const {
  std::vector<fs::path> files;
  for (const auto& [location, file] : external_files_) files.push_back(file.path);
  return files;
}

std::shared_ptr<const support::MappedFile> TensorReader::external_file(std::string_view location) {
  if (const auto known = external_files_.find(location); known != external_files_.end()) {
    return known->second.content;
  }
  const fs::path relative(location);
  if (folder_.empty() || !stays_below(relative) || location.find('\0') != std::string_view::npos) {
    fail(fmt::format("external data \"{}\" is not read: it is outside the model's folder", location));
  }
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  const fs::path path = error ? fs::path() : fs::canonical(folder / relative, error);
  if (error) fail(fmt::format("cannot read external data {}: {}", location, error.message()));
  if (!is_below(path, folder)) {
    fail(fmt::format("external data \"{}\" is not read: it links outside the model's folder", location));
  }
  try {
    auto content = std::make_shared<const support::MappedFile>(path);
    external_files_.emplace(location, ExternalFile{path, content});
    return content;
  } catch (const Error& refusal) {
    throw Error(refusal.code(), fmt::format("external data {}: {}", location, refusal.message()));
  }
}

}  // namespace opbridge::onnx
