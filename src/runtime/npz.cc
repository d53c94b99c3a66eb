#include "runtime/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "opbridge/error.h"
#include "support/mapped_file.h"
#include "support/zip_archive.h"
#include "tensor/strided_copy.h"

namespace opbridge::runtime {
namespace {

constexpr std::string_view npy_magic("\x93NUMPY", 6);

struct Header {
  std::string_view descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Parses a .npy header, which is one Python expression: a dict of a string, a bool and a tuple of integers.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect("{");
    while (!take("}")) {
      const std::string_view key = string();
      expect(":");
      if (key == "descr") {
        header.descr = string();
        has_descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = take("True");
        if (!header.fortran_order) expect("False");
        has_order = true;
      } else if (key == "shape") {
        header.shape = shape();
        has_shape = true;
      } else {
        fail();
      }
      if (!take(",")) {
        expect("}");
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) fail();
    return header;
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorCode::unsupported,
                "it is not a plain array of numbers; save such arrays with numpy.savez");
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail();
  }

  std::string_view string() {
    expect("'");
    const size_t end = rest_.find('\'');
    if (end == std::string_view::npos) fail();
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect("(");
    while (!take(")")) {
      skip_spaces();
      int64_t size = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0) fail();
      rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
      sizes.push_back(size);
      if (!take(",")) {
        expect(")");
        break;
      }
    }
    return sizes;
  }

  std::string_view rest_;
};

ElementType element_type(std::string_view descr) {
  struct Row {
    std::string_view descr;
    ElementType type;
  };
  static constexpr Row rows[] = {
      {"|b1", ElementType::boolean},     {"|i1", ElementType::int8},     {"|u1", ElementType::uint8},
      {"<i2", ElementType::int16},       {"<i4", ElementType::int32},    {"<i8", ElementType::int64},
      {"<u2", ElementType::uint16},      {"<u4", ElementType::uint32},   {"<u8", ElementType::uint64},
      {"<f2", ElementType::float16},     {"<f4", ElementType::float32},  {"<f8", ElementType::float64},
      {"|V2", ElementType::bfloat16},    {"<V2", ElementType::bfloat16}, {"<c8", ElementType::complex64},
      {"<c16", ElementType::complex128},
  };
  for (const Row& row : rows) {
    if (row.descr == descr) return row.type;
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("no tensor has NumPy's element type '{}'; save arrays of numbers", descr));
}

// The row-major bytes of a column-major array.
std::shared_ptr<std::vector<std::byte>> row_major(const Header& header, size_t element_size,
                                                  std::span<const std::byte> data) {
  auto bytes = std::make_shared<std::vector<std::byte>>(data.size());
  if (data.empty()) return bytes;
  tensor::StridedView view{element_size, header.shape, {}, 0};
  int64_t stride = 1;
  for (const int64_t size : header.shape) {
    view.strides.push_back(stride);
    stride *= size;
  }
  tensor::strided_copy(view, data, bytes->data());
  return bytes;
}

ir::Weight read_npy(const support::ZipArchive::Content& content) {
  const std::span<const std::byte> bytes = content.bytes;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(npy_magic) || bytes.size() < 12) {
    throw Error(ErrorCode::invalid_file, "it is not a NumPy array");
  }
  const size_t length_bytes = bytes[6] == std::byte{1} ? 2 : 4;
  size_t header_size = 0;
  std::memcpy(&header_size, bytes.data() + 8, length_bytes);
  const size_t header_begin = 8 + length_bytes;
  if (header_size > bytes.size() - header_begin) throw Error(ErrorCode::invalid_file, "it is truncated");

  const Header header = HeaderParser(text.substr(header_begin, header_size)).parse();
  const ElementType type = element_type(header.descr);
  const std::span<const std::byte> data = bytes.subspan(header_begin + header_size);
  const std::optional<uint64_t> size = tensor::StridedView{size_of(type), header.shape, {}, 0}.byte_size();
  if (size != data.size()) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("its shape does not match its {} bytes of data", data.size()));
  }
  if (!header.fortran_order) return ir::Weight{type, header.shape, data, content.owner};
  auto reordered = row_major(header, size_of(type), data);
  const std::span<const std::byte> reordered_bytes(*reordered);
  return ir::Weight{type, header.shape, reordered_bytes, std::move(reordered)};
}

}  // namespace

std::vector<NamedTensor> read_npz(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  std::vector<NamedTensor> tensors;
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), npy_magic.size()));
  if (start == npy_magic)
    throw Error(ErrorCode::invalid_file,
                "a .npy file has one array without a name; numpy.savez saves arrays under their names");
  const support::ZipArchive archive(bytes, std::move(owner), "an .npz file");
  for (const support::ZipArchive::Entry& entry : archive.entries()) {
    std::string_view name = entry.name;
    if (name.ends_with(".npy")) name.remove_suffix(4);
    try {
      tensors.push_back({std::string(name), read_npy(archive.read_checked(entry))});
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("array '{}': {}", name, error.message()));
    }
  }
  return tensors;
}

std::vector<NamedTensor> read_npz(const std::filesystem::path& path) {
  try {
    const auto file = std::make_shared<support::MappedFile>(path);
    return read_npz(file->bytes(), file);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path.string(), error.message()));
  }
}

}  // namespace opbridge::runtime
