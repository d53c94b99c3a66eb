// The passes of the simplify stage. Each changes the graph and the bodies of its control flow in place and
// returns whether it changed anything; the outputs of the graph keep their values. The nodes of a pattern
// must be in the same graph, so that no work moves into a body, which may run often, or out of one, which may
// not run. The golden tests are in tests/cpp/golden.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::simplification {

// Replaces nodes whose inputs are all small constants by constants, and likewise the Shape of a value of
// known sizes.
bool fold_constants(ir::Graph& graph);

// Replaces x + 0, x * 1, -(-x), a Cast to a wider type and back, Where of a constant condition, … by x.
bool remove_identities(ir::Graph& graph);

// Merges nodes with the same operator, inputs and attributes, and equal small constants.
bool merge_common_subexpressions(ir::Graph& graph);

// Shortens chains of Reshape, Squeeze, Unsqueeze and Transpose, and removes those that change nothing.
bool canonicalize_transposes(ir::Graph& graph);

// Replaces x * (1 / y) by x / y, the form in which runtimes fuse an RMS normalization, unless the result
// is rounded to integers.
bool divide_by_reciprocals(ir::Graph& graph);

// Folds a BatchNormalization with constant statistics into the weights of the Conv before it. Copies at most
// most_folded_bytes of weights.
bool fold_batch_normalization(ir::Graph& graph);

// Folds constant factors of channels into the weights of the Conv, Gemm or MatMul before them. The same limit
// applies.
bool fold_channel_scales(ir::Graph& graph);

}  // namespace opbridge::simplification
