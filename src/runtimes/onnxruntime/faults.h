// The rewrites of the legalize stage. Each works around one fault of ONNX Runtime and has its own file, which
// begins with the versions, the model that shows the fault, the rewrite and the tests. `names` are those of
// the graph.
#pragma once

#include "ir/uses.h"
#include "opbridge/ir.h"
#include "runtimes/refusal.h"

namespace opbridge::onnxruntime {

// Replaces single nodes by others (replacements.h).
void replace_nodes(ir::Graph& graph, int opset, const runtimes::Refuse& refuse);

// Replaces products by weights of 4 bits by MatMulNBits.
void multiply_four_bits(ir::Graph& graph, ir::Names& names);

// Replaces DequantizeLinear of constants by Cast, Sub and Mul, except in products of integers.
void convert_dequantized_weights(ir::Graph& graph, ir::Names& names);

// Makes the second factors of integer products uint8 instead of int8, for which kernels saturate. Runs after
// convert_dequantized_weights, which leaves such weights alone.
void shift_signed_factors(ir::Graph& graph, ir::Names& names);

// Makes nodes compute in element types for which the runtime has kernels.
void fit_element_types(ir::Graph& graph, ir::Names& names, int opset, const runtimes::Refuse& refuse);

// Replaces a matrix-vector product whose matrix may be empty by a matrix product, and an empty batched
// product by a constant.
void mend_empty_products(ir::Graph& graph, ir::Names& names, int opset);

// Replaces Cast(Transpose(x)) by Transpose(Cast(x)) before a MatMul.
void cast_before_rotations(ir::Graph& graph, ir::Names& names);

// Gives a Pad before a pool a form that ONNX Runtime does not fuse into the pool.
void keep_pads_before_pools(ir::Graph& graph, ir::Names& names, int opset);

// Replaces x * (1 / y) that is rounded to integers by x * -(-1 / y), which ONNX Runtime does not replace by
// x / y.
void keep_rounded_products(ir::Graph& graph, ir::Names& names);

// Computes Sigmoid as 1 / (1 + Exp(-x)), where later nodes may depend on the relative error of small results.
void compute_small_sigmoids(ir::Graph& graph, ir::Names& names);

// Separates products by float weights from the quantization of their results, for which ONNX Runtime rounds
// the weights to 8 bits.
void keep_float_weights(ir::Graph& graph, ir::Names& names);

// Separates a Resize that interpolates from dequantized levels, which ONNX Runtime 1.20 would resize
// themselves.
void keep_quantized_resizes(ir::Graph& graph, ir::Names& names);

// Separates a quantization from an earlier one with other levels, which ONNX Runtime would remove.
void keep_repeated_quantization(ir::Graph& graph, ir::Names& names);

// Separates outputs of the model from their quantized transposes.
void keep_transposed_outputs(ir::Graph& graph, ir::Names& names);

// Separates a Cast from earlier ones if the runtime would remove one that changes the result.
void keep_lossy_casts(ir::Graph& graph, ir::Names& names);

}  // namespace opbridge::onnxruntime
