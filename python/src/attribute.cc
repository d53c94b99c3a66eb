#include "attribute.h"

#include <complex>
#include <string>

namespace opbridge::python {
namespace {

std::string text_of(nb::handle object) { return nb::repr(object).c_str(); }

int64_t to_int(nb::handle object) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow != 0) {
    throw Error(ErrorCode::unsupported, "the integer " + text_of(object) + " does not fit 64 bits");
  }
  return value;
}

std::string to_string(nb::handle object) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

bool is_opaque(nb::handle object) {
  for (nb::handle type : torch_types().opaque) {
    if (PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(type.ptr()))) return true;
  }
  return false;
}

// The kinds of objects in a list, as a bit set.
enum Kind : unsigned {
  none = 1,
  boolean = 2,
  integer = 4,
  floating = 8,
  string = 16,
  dim = 32,
  value = 64,
  graph = 128,
  other = 256
};

unsigned kind_of(nb::handle object) {
  PyObject* p = object.ptr();
  if (p == Py_None) return none;
  if (PyBool_Check(p)) return boolean;
  if (PyLong_Check(p)) return integer;
  if (PyFloat_Check(p)) return floating;
  if (PyUnicode_Check(p)) return string;
  if (nb::isinstance<ProgramValue>(object)) return value;
  if (nb::isinstance<Dim>(object)) return dim;
  if (nb::isinstance<GraphHandle>(object)) return graph;
  return other;
}

template <class T, class Convert>
std::vector<T> list_of(nb::handle sequence, Convert convert) {
  std::vector<T> result;
  const std::vector<nb::handle> parts = items(sequence);
  result.reserve(parts.size());
  for (nb::handle item : parts) result.push_back(convert(item));
  return result;
}

ir::Value* to_value(nb::handle object, uint32_t builder, const std::vector<ir::Value*>& values) {
  const auto& handle = nb::cast<const ProgramValue&>(object);
  if (handle.builder != builder) {
    throw Error(ErrorCode::invalid_argument, "a value was used in a program that did not make it");
  }
  return values.at(handle.index);
}

ir::AttributeValue to_list(nb::handle sequence, uint32_t builder, const std::vector<ir::Value*>& values) {
  unsigned kinds = 0;
  for (nb::handle item : items(sequence)) kinds |= kind_of(item);
  const auto only = [kinds](unsigned allowed) { return (kinds & ~allowed) == 0; };
  if (only(integer)) return list_of<int64_t>(sequence, to_int);
  if (only(boolean)) {
    return list_of<bool>(sequence, [](nb::handle item) { return item.ptr() == Py_True; });
  }
  if (only(integer | floating)) {
    return list_of<double>(sequence, [](nb::handle item) { return PyFloat_AsDouble(item.ptr()); });
  }
  if (only(integer | dim)) return list_of<Dim>(sequence, to_dim);
  if (only(string)) return list_of<std::string>(sequence, to_string);
  if (only(value | none)) {
    return list_of<ir::Value*>(sequence, [&](nb::handle item) {
      return item.is_none() ? nullptr : to_value(item, builder, values);
    });
  }
  if (only(graph)) {
    return list_of<ir::GraphPtr>(sequence,
                                 [](nb::handle item) { return nb::cast<const GraphHandle&>(item).share(); });
  }
  throw Error(ErrorCode::unsupported, "a list of mixed kinds as argument: " + text_of(sequence));
}

}  // namespace

std::vector<nb::handle> items(nb::handle sequence) {
  const bool is_list = nb::isinstance<nb::list>(sequence);
  if (!is_list && !nb::isinstance<nb::tuple>(sequence)) throw nb::type_error("a list or a tuple is expected");
  std::vector<nb::handle> result(nb::len(sequence));
  for (size_t i = 0; i < result.size(); ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    result[i] = is_list ? PyList_GetItem(sequence.ptr(), at) : PyTuple_GetItem(sequence.ptr(), at);
  }
  return result;
}

TorchTypes& torch_types() {
  static TorchTypes* types = new TorchTypes;  // never destroyed: the interpreter may be finalized before it
  return *types;
}

ElementType to_element_type(nb::handle dtype) {
  PyObject* number = PyDict_GetItemWithError(torch_types().elements.ptr(), dtype.ptr());
  if (number == nullptr) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    throw Error(ErrorCode::unsupported, "ONNX has no element type for " + text_of(dtype));
  }
  return static_cast<ElementType>(PyLong_AsLong(number));
}

Dim to_dim(nb::handle object) {
  if (PyLong_Check(object.ptr())) return {to_int(object)};
  return nb::cast<const Dim&>(object);
}

std::vector<Dim> to_dims(nb::handle sequence) { return list_of<Dim>(sequence, to_dim); }

ir::AttributeValue to_attribute(nb::handle object, uint32_t builder, const std::vector<ir::Value*>& values) {
  PyObject* p = object.ptr();
  switch (kind_of(object)) {
    case none:
      return std::monostate();
    case boolean:
      return p == Py_True;
    case integer:
      return to_int(object);
    case floating:
      return PyFloat_AsDouble(p);
    case string:
      return to_string(object);
    case dim: {
      const Dim& size = nb::cast<const Dim&>(object);
      if (size.is_static()) return size.value();
      return size;
    }
    case value:
      return to_value(object, builder, values);
    case graph:
      return nb::cast<const GraphHandle&>(object).share();
    default:
      break;
  }
  if (PyList_Check(p) || PyTuple_Check(p)) return to_list(object, builder, values);
  if (Py_TYPE(p) == reinterpret_cast<PyTypeObject*>(torch_types().dtype.ptr()))
    return to_element_type(object);
  if (PyComplex_Check(p)) return std::complex<double>(PyComplex_RealAsDouble(p), PyComplex_ImagAsDouble(p));
  if (is_opaque(object)) return ir::Opaque{nb::str(object).c_str()};
  throw Error(ErrorCode::unsupported, "an argument of a kind that graphs cannot hold: " + text_of(object));
}

}  // namespace opbridge::python
