#include "support/json.h"

#include <fmt/format.h>

#include <limits>

#include "opbridge/error.h"

namespace opbridge::json {
namespace {

template <class T>
T typed_field(Object object, std::string_view key, const char* kind) {
  T value;
  if (field(object, key).get(value) != simdjson::SUCCESS) {
    throw Error(ErrorCode::invalid_file, fmt::format("the field '{}' is not {}", key, kind));
  }
  return value;
}

}  // namespace

Element parse(simdjson::dom::parser& parser, const support::ZipArchive& archive,
              const support::ZipArchive::Entry& entry) {
  const support::ZipArchive::Content content = archive.read_checked(entry);
  return parse(parser, content.bytes, fmt::format("'{}'", entry.name));
}

Element parse(simdjson::dom::parser& parser, std::span<const std::byte> text, std::string_view what) {
  Element document;
  // The parser reads a few bytes past the end of its input, so it copies the text.
  if (const auto error =
          parser.parse(reinterpret_cast<const char*>(text.data()), text.size()).get(document)) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("{} is not valid JSON: {}", what, simdjson::error_message(error)));
  }
  return document;
}

void wrong_kind() { throw Error(ErrorCode::invalid_file, "a value has the wrong kind"); }

double as_number(Element element) {
  double value = 0;
  if (element.get(value) == simdjson::SUCCESS) return value;  // also converts integers
  const auto text = as<std::string_view>(element);
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  wrong_kind();
}

Element field(Object object, std::string_view key) {
  Element value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS) {
    throw Error(ErrorCode::invalid_file, fmt::format("the field '{}' is missing", key));
  }
  return value;
}

Element item(Array list, size_t index) {
  Element value;
  if (list.at(index).get(value) != simdjson::SUCCESS) {
    throw Error(ErrorCode::invalid_file, "a list is too short");
  }
  return value;
}

Object object_field(Object object, std::string_view key) {
  return typed_field<Object>(object, key, "an object");
}
Array array_field(Object object, std::string_view key) { return typed_field<Array>(object, key, "a list"); }
std::string_view string_field(Object object, std::string_view key) {
  return typed_field<std::string_view>(object, key, "a string");
}
int64_t int_field(Object object, std::string_view key) {
  return typed_field<int64_t>(object, key, "an integer");
}
bool bool_field(Object object, std::string_view key) {
  return typed_field<bool>(object, key, "true or false");
}

Tagged tagged(Element element) {
  const auto object = as<Object>(element);
  if (object.size() != 1) {
    throw Error(ErrorCode::invalid_file, "a value is not an object whose only key names its kind");
  }
  const auto only = *object.begin();
  return {only.key, only.value};
}

}  // namespace opbridge::json
