#pragma once

#include <numeric>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge {

using Permutation = std::vector<int64_t>;

inline bool is_transpose(const ir::Node* node) { return node && node->op == "Transpose"; }

// Of its input, whose rank is known.
inline Permutation permutation_of(const ir::Node& transpose) {
  if (const ir::AttributeValue* given = transpose.find("perm")) return std::get<Permutation>(*given);
  Permutation reversed(transpose.inputs[0]->tensor_type().rank());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return reversed;
}

}  // namespace opbridge
