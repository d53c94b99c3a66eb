#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "opbridge/error.h"

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
      .def_static("symbol", &Dim::symbol_between, "name"_a, "least"_a = nb::none(), "most"_a = nb::none(),
                  "A symbol between `least` and `most`; None if unknown.")
      .def_static("parse", &parse, "text"_a, "symbols"_a = nb::dict(),
                  "Parses a sympy expression; `symbols` maps its symbols to Dims.")
      .def_prop_ro("symbols", &Dim::symbols)
      .def(
          "evaluate",
          [](const Dim& dim, const std::unordered_map<std::string, int64_t>& values) {
            return dim.evaluate([&](const std::string& name) {
              const auto value = values.find(name);
              if (value != values.end()) return value->second;
              throw Error(ErrorCode::invalid_argument, "no value of the size " + name);
            });
          },
          "values"_a, "The size for the given values of its symbols.")
      .def_prop_ro("least", &Dim::least, "The least value of the size; None if unknown.")
      .def("__str__", &Dim::str);
}

}  // namespace opbridge::python
