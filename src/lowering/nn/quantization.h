// Quantization in which blocks of elements share a scale and a zero point.
#pragma once

#include <optional>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// How a tensor is divided into blocks of one size.
struct Blocks {
  std::vector<Dim>
      split;  // the dims of the tensor; a dim with several blocks of several elements is split into two
  std::vector<Dim> kept;         // `split` with 1 for the dims in `inside`: the dims of the scales
  std::vector<int64_t> inside;   // the dims of `split` that a block extends over
  std::vector<Dim> size, count;  // of the blocks along each dim of the tensor
};
Blocks blocks_of(GraphBuilder& g, Value x, const std::vector<Dim>& size);

struct Levels {
  double least, greatest;
};

// 1 / scale, by which PyTorch multiplies; a division would be rounded differently.
Value inverse(GraphBuilder& g, Value scale);

// DequantizeLinear of the constant `q`, in float32: a tensor of int4 or uint4 if the levels have 4 bits and
// the opset has these types. Missing if `q` is not constant, or if the operator does not express the blocks
// or the zero points.
std::optional<Value> dequantize_linear(GraphBuilder& g, Value q, const Blocks& blocks, Value scale,
                                       std::optional<Value> zero, const Levels& levels);

// The rows at `indices` of a table that is the result of a DequantizeLinear: they are gathered first, then
// dequantized. Missing if the table is any other value.
std::optional<Value> gather_quantized_rows(GraphBuilder& g, Value table, Value indices);

}  // namespace opbridge::lowering
