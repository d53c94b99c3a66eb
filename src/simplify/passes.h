// The passes of the simplify stage. Each changes the graph and the bodies of control flow in it, in place,
// and most return whether they changed anything; the outputs of the graph keep their values. A pass that
// looks at several nodes wants them in the same graph: it moves no work into a body, which may run often, nor
// out of one, which may not run. Their golden tests are in tests/cpp/golden.
#pragma once

#include "opbridge/ir.h"

namespace opbridge {

// Nodes whose inputs are all small constants become constants; so does the Shape of what has known sizes.
bool fold_constants(ir::Graph& graph);

// x + 0, x * 1, -(-x), a Cast up and back, Where of a constant condition, and the like become x.
bool remove_identities(ir::Graph& graph);

// Nodes that compute the same from the same become one, and so do equal small constants.
bool merge_common_subexpressions(ir::Graph& graph);

// Reshape, Squeeze, Unsqueeze and Transpose after one another become fewer; those that do nothing disappear.
bool canonicalize_transposes(ir::Graph& graph);

// x * (1 / y) becomes x / y, as the runtime wants to see it where it fuses an RMS normalization.
bool divide_by_reciprocals(ir::Graph& graph);

// A normalization with constant statistics goes into the weights of the convolution before it, which become
// copies: up to a limit.
bool fold_batch_normalization(ir::Graph& graph);

// So do constant factors of the channels of a convolution or of a product with a matrix.
bool fold_channel_scales(ir::Graph& graph);

}  // namespace opbridge
