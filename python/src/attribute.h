// Converts Python objects to attribute values and types of torch-level nodes.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bindings.h"

namespace opbridge::python {

// The torch classes that the conversion knows. Python fills it once, so that this library needs no torch
// headers.
struct TorchTypes {
  nb::object dtype;     // the class torch.dtype
  nb::object elements;  // dict: torch.dtype → ElementType number
  nb::tuple opaque;     // classes whose objects become ir::Opaque
};
TorchTypes& torch_types();

// The borrowed items of a list or a tuple; throws nb::type_error for anything else.
std::vector<nb::handle> items(nb::handle sequence);

// Throws Error(unsupported) for a dtype without an ONNX type.
ElementType to_element_type(nb::handle dtype);

// An int or a Dim.
Dim to_dim(nb::handle object);
std::vector<Dim> to_dims(nb::handle sequence);

// Converts None, bool, int, float, complex, str, dtype, ProgramValue, Dim, Graph, an opaque object, or a list
// or tuple of these. `values` are those of the builder numbered `builder`. Throws Error(unsupported) for
// anything else.
ir::AttributeValue to_attribute(nb::handle object, uint32_t builder, const std::vector<ir::Value*>& values);

}  // namespace opbridge::python
