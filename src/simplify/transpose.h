#pragma once

#include <numeric>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::simplification {

using Permutation = std::vector<int64_t>;

// Whether the node is a Transpose whose permutation is known, from its attribute or the rank of its input.
inline bool is_transpose(const ir::Node* node) {
  if (!node || node->op != "Transpose") return false;
  const auto* type = std::get_if<ir::TensorType>(&node->inputs.at(0)->type);
  return node->find("perm") || (type && type->ranked());
}

inline Permutation permutation_of(const ir::Node& transpose) {
  if (const ir::AttributeValue* given = transpose.find("perm")) return std::get<Permutation>(*given);
  Permutation reversed(transpose.inputs[0]->tensor_type().rank());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return reversed;
}

}  // namespace opbridge::simplification
