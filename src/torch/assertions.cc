#include "torch/assertions.h"

#include <algorithm>
#include <array>

namespace opbridge::torch {

bool is_assertion(std::string_view op) {
  constexpr std::array<std::string_view, 7> prefixes = {
      "aten::_assert_",
      "aten::_functional_assert_",
      "aten::sym_constrain_range",
      "aten::_functional_sym_constrain_range",
      "aten::_make_dep_token",
      "aten::_print",
      "profiler::_record_function_",
  };
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return op.starts_with(prefix); });
}

}  // namespace opbridge::torch
