// Translates opbridge::Error into the exception class of opbridge.errors for its code.
#include <nanobind/stl/string.h>

#include "bindings.h"

namespace opbridge::python {
namespace {

const char* class_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "InvalidArgumentError";
    case ErrorCode::invalid_file:
    case ErrorCode::io:
      return "FileError";
    case ErrorCode::invalid_node:
      return "InvalidNodeError";
    case ErrorCode::unsupported:
      return "UnsupportedError";
    case ErrorCode::internal:
      return "InternalError";
  }
  return "Error";
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const Error& error) {
      nb::object type = nb::module_::import_("opbridge.errors").attr(class_name(error.code()));
      nb::object instance = type(error.message(), error.where());
      PyErr_SetObject(type.ptr(), instance.ptr());
    }
  });
}

}  // namespace opbridge::python
