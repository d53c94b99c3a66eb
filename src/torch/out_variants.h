// The `out=` variants of operators, which write their results to arguments.
#pragma once

#include <array>
#include <string_view>

namespace opbridge::torch {

struct OutVariant {
  std::string_view op;                             // "aten::cummax.out"
  std::string_view pure;                           // the operator that computes the results: "aten::cummax"
  std::array<std::string_view, 4> outs = {"out"};  // the arguments that are written; unused entries are empty
};

// Null for a regular variant: `abs.out` corresponds to `abs`, `ne.Tensor_out` to `ne.Tensor`, and both write
// only `out`.
const OutVariant* irregular_out_variant(std::string_view op);

}  // namespace opbridge::torch
