// Parses the default values in schema lines.
#include <charconv>

#include "library.h"

namespace opbridge::op::detail {
namespace {

std::vector<std::string_view> list_items(std::string_view text) {
  std::vector<std::string_view> items;
  text.remove_prefix(1);
  text.remove_suffix(1);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!item.empty()) items.push_back(item);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

[[noreturn]] void bad_default(std::string_view text) {
  throw Error(ErrorCode::invalid_argument, "cannot read the value " + std::string(text));
}

std::int64_t read_int(std::string_view text) {
  if (text == "True") return 1;
  if (text == "False") return 0;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) bad_default(text);
  return value;
}

double read_double(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) bad_default(text);
  return value;
}

std::string read_string(std::string_view text) {
  if (text.size() < 2 || (text.front() != '"' && text.front() != '\'') || text.back() != text.front()) {
    bad_default(text);
  }
  return std::string(text.substr(1, text.size() - 2));
}

template <class T, class Read>
std::vector<T> read_list(const SchemaArgument& argument, Read read) {
  const std::string_view text = argument.default_text;
  if (!text.starts_with('[') || !text.ends_with(']')) {
    return std::vector<T>(std::max<std::size_t>(argument.list_size, 1), read(text));
  }
  std::vector<T> values;
  for (const std::string_view item : list_items(text)) values.push_back(read(item));
  return values;
}

}  // namespace

Value default_value(const SchemaArgument& argument) {
  const std::string_view text = argument.default_text;
  if (!argument.has_default && !argument.type.optional) {
    throw Error(ErrorCode::invalid_argument, "the argument " + std::string(argument.name) + " is missing");
  }
  if (!argument.has_default || text == "None") return std::monostate{};
  const bool list = argument.type.list;
  switch (argument.type.kind) {
    case Kind::tensor:
      return std::monostate{};
    case Kind::integer:
    case Kind::sym_int:
    case Kind::boolean:
      if (list) return Shape(read_list<Dim>(argument, read_int));
      return Dim(read_int(text));
    case Kind::floating:
      if (list) return read_list<double>(argument, read_double);
      return read_double(text);
    case Kind::string:
      if (list) return read_list<std::string>(argument, read_string);
      return read_string(text);
  }
  bad_default(text);
}

}  // namespace opbridge::op::detail
