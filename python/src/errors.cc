// Translates between opbridge::Error and the exception classes of opbridge.errors, by their codes.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <exception>

#include "bindings.h"
#include "lowering/foreign_error.h"

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

nb::object class_of(ErrorCode code) { return nb::module_::import_("opbridge.errors").attr(class_name(code)); }

// Raises the Python exception again.
void restore(const std::exception_ptr& original) {
  try {
    std::rethrow_exception(original);
  } catch (nb::python_error& raised) {
    raised.restore();
  }
}

constexpr std::array codes{ErrorCode::invalid_argument, ErrorCode::invalid_file, ErrorCode::invalid_node,
                           ErrorCode::unsupported, ErrorCode::internal};

}  // namespace

void throw_as_error(const nb::python_error& raised) {
  if (!raised.matches(nb::module_::import_("opbridge.errors").attr("Error"))) return;
  const auto* code =
      std::ranges::find_if(codes, [&](ErrorCode each) { return raised.matches(class_of(each)); });
  const nb::handle value = raised.value();
  throw ForeignError(code == codes.end() ? ErrorCode::unsupported : *code,
                     nb::cast<std::string>(value.attr("message")), nb::cast<std::string>(value.attr("where")),
                     std::current_exception());
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const ForeignError& error) {
      restore(error.original());
    } catch (const Error& error) {
      const nb::object type = class_of(error.code());
      const nb::object instance = type(error.message(), error.where());
      PyErr_SetObject(type.ptr(), instance.ptr());
    }
  });
}

}  // namespace opbridge::python
