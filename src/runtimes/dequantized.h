// Weights that a DequantizeLinear computes from integers.
#pragma once

#include <optional>

#include "opbridge/ir.h"

namespace opbridge::runtimes {

// A DequantizeLinear of 4 or 8 bits to float32 whose inputs are all constant.
struct Dequantized {
  ir::Node* node;
  const ir::Weight& integers;
  const ir::Weight& scale;
  const ir::Weight* zero;  // null for 0
  // Along this axis, each run of `block` indices has a scale of its own. Missing for one scale.
  std::optional<size_t> axis;
  int64_t block = 1;
};

// `node` may be null.
std::optional<Dequantized> dequantized(ir::Node* node);

// The factor W of a node MatMul(x, Transpose(W)), or of a Gemm that computes x W^T.
std::optional<Dequantized> transposed_factor(const ir::Node& node);

}  // namespace opbridge::runtimes
