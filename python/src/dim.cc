#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace opbridge::python {
namespace {

Dim parse(std::string_view text, const std::unordered_map<std::string, Dim>& symbols) {
  return Dim::parse(text, [&](const std::string& name, std::optional<int64_t> least) {
    const auto symbol = symbols.find(name);
    return symbol == symbols.end() ? Dim::symbol(name, least) : symbol->second;
  });
}

}  // namespace

void bind_dim(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Dim>(module, "Dim", "A size: an integer expression over named symbols.")
      .def_static("symbol", &Dim::symbol, "name"_a, "least"_a = nb::none(),
                  "A symbol that is not below `least`; None where nothing is known.")
      .def_static("parse", &parse, "text"_a, "symbols"_a = nb::dict(),
                  "Reads the text of a sympy expression; `symbols` holds what stands for its symbols.")
      .def_prop_ro("symbols", &Dim::symbols)
      .def_prop_ro("least", &Dim::least, "What the size is not below; None where nothing is known.")
      .def("__str__", &Dim::str);
}

}  // namespace opbridge::python
