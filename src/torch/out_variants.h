// The `out=` variants of operators, which write their results to arguments.
#pragma once

#include <array>
#include <string_view>

namespace opbridge::torch {

struct OutVariant {
  std::string_view op;                             // "aten::cummax.out"
  std::string_view pure;                           // computes the results: "aten::cummax"
  std::array<std::string_view, 4> outs = {"out"};  // the arguments that are written; the rest is empty
};

// Null for a variant that follows the rule: `abs.out` is of `abs`, `ne.Tensor_out` of `ne.Tensor`, and both
// write to `out` alone.
const OutVariant* irregular_out_variant(std::string_view op);

}  // namespace opbridge::torch
