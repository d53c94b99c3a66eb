// Helpers for the mappings of backward operators.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "lowering/formula.h"

namespace opbridge::lowering {

// `value` as an operand of the call, whose result has the index `index`: in the opmath type of that result.
inline Formula operand_of_result(GraphBuilder& g, Value value, size_t index = 0) {
  return {g, operand(g, value, g.result(index).element_type)};
}

// Calls `compute` with the tensors in the opmath type of the call's result, and casts what it returns to the
// result's type.
template <class F, class... Tensors>
Value in_formula(GraphBuilder& g, F compute, Tensors... tensors) {
  const ElementType promoted = result_type(g, std::array<Value, sizeof...(Tensors)>{tensors...});
  if (is_floating_point(promoted) && !is_floating_point(g.result().element_type))
    g.refuse(
        "PyTorch's kernel returns floating point, but its shape rule says integers; convert the tensors");
  return g.cast(compute(operand_of_result(g, tensors)...), g.result().element_type);
}

// The results of an operator with an output mask. It returns only the requested ones; some shape rules always
// return the first result, which then has no value.
class MaskedResults {
 public:
  MaskedResults(GraphBuilder& g, const std::vector<bool>& mask)
      : g_(g),
        mask_(mask),
        unwanted_(static_cast<std::ptrdiff_t>(g.result_count()) - std::ranges::count(mask, true)) {}

  // If the next result is requested, adds the value of `compute`, reshaped and cast to that result's type.
  template <class F>
  void add(F compute) {
    if (!mask_.at(next_++)) {
      if (unwanted_-- > 0) results_.emplace_back();
      return;
    }
    const ir::TensorType& type = g_.result(results_.size());
    results_.push_back(g_.cast(g_.reshape(compute(), *type.dims), type.element_type));
  }
  std::vector<Value> take() { return std::move(results_); }

 private:
  GraphBuilder& g_;
  std::vector<bool> mask_;
  std::ptrdiff_t unwanted_;  // number of results that are returned although not requested
  std::vector<Value> results_;
  size_t next_ = 0;
};

}  // namespace opbridge::lowering
