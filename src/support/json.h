// simdjson's DOM, with errors that name the field.
#pragma once

// Disables simdjson's throwing conversions: the only exceptions thrown are opbridge::Error.
#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "support/zip_archive.h"

namespace opbridge::json {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

// Parses an archive entry and checks its checksum; `parser` owns the document. Throws Error(invalid_file) if
// the entry is not JSON.
Element parse(simdjson::dom::parser& parser, const support::ZipArchive& archive,
              const support::ZipArchive::Entry& entry);
// Parses a text, which errors call `what`.
Element parse(simdjson::dom::parser& parser, std::span<const std::byte> text, std::string_view what);

// The functions below throw Error(invalid_file) if the value is missing or of another kind.

[[noreturn]] void wrong_kind();

// T: Object, Array, std::string_view, int64_t or bool.
template <class T>
T as(Element element) {
  T value;
  if (element.get(value) != simdjson::SUCCESS) wrong_kind();
  return value;
}

// A floating-point number. JSON has no infinity: torch.export writes "Infinity", "-Infinity" and "NaN".
double as_number(Element element);

Element field(Object object, std::string_view key);
Element item(Array list, size_t index);
Object object_field(Object object, std::string_view key);
Array array_field(Object object, std::string_view key);
std::string_view string_field(Object object, std::string_view key);
int64_t int_field(Object object, std::string_view key);
bool bool_field(Object object, std::string_view key);

// A union of torch.export's schema: an object whose only key names the kind of the value.
struct Tagged {
  std::string_view tag;
  Element value;
};
Tagged tagged(Element element);

}  // namespace opbridge::json
