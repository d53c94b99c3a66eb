#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace opbridge::python {
namespace {

Dim parse(std::string_view text, const std::unordered_map<std::string, std::string>& names) {
  Dim dim = Dim::parse(text);
  if (names.empty() || dim.is_static()) return dim;
  return dim.renamed([&](const std::string& symbol) {
    auto name = names.find(symbol);
    return name == names.end() ? symbol : name->second;
  });
}

}  // namespace

void bind_dim(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Dim>(module, "Dim", "A size: an integer expression over named symbols.")
      .def_static("parse", &parse, "text"_a, "names"_a = nb::dict(),
                  "Reads the text of a sympy expression; `names` renames its symbols.")
      .def_prop_ro("symbols", &Dim::symbols)
      .def("__str__", &Dim::str);
}

}  // namespace opbridge::python
