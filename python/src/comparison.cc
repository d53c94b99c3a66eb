// Exposes the comparison that opbridge.verify shares with the command `opbridge verify`.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "attribute.h"
#include "bindings.h"
#include "tensor/compare.h"

namespace opbridge::python {

void bind_comparison(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "tolerances_of",
      [](nb::handle dtype) {
        const tensor::Tolerance usual = tensor::Tolerance::of(to_element_type(dtype));
        return std::tuple(usual.relative, usual.absolute);
      },
      "dtype"_a, "The relative and the absolute tolerance of an element type.");
  module.def(
      "compare_tensors",
      [](nb::handle dtype, const std::vector<int64_t>& dims, uintptr_t actual, uintptr_t expected,
         std::optional<double> rtol, std::optional<double> atol) {
        ir::Weight sides[] = {{to_element_type(dtype), dims, {}, nullptr},
                              {to_element_type(dtype), dims, {}, nullptr}};
        const uint64_t size =
            storage_bytes(sides[0].element_type, static_cast<uint64_t>(sides[0].element_count()));
        sides[0].bytes = {reinterpret_cast<const std::byte*>(actual), size};
        sides[1].bytes = {reinterpret_cast<const std::byte*>(expected), size};
        const tensor::Tolerance usual = tensor::Tolerance::of(sides[0].element_type);
        const nb::gil_scoped_release unlocked;
        const tensor::Difference difference = tensor::compare(
            sides[0], sides[1], {rtol.value_or(usual.relative), atol.value_or(usual.absolute)});
        return std::tuple(difference.max_absolute, difference.max_relative, difference.cosine,
                          difference.mismatches, difference.mismatch);
      },
      "dtype"_a, "dims"_a, "actual"_a, "expected"_a, "rtol"_a, "atol"_a,
      "Compares two contiguous tensors, given by their addresses. Returns the largest absolute and relative\n"
      "difference, the cosine, the number of elements that differ by more than the tolerance, and a line "
      "that\n"
      "describes the mismatch, empty if they agree.");
}

}  // namespace opbridge::python
