// Dims of what `g.op` makes, where they follow simply from the inputs.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge {

// Fills in `outputs[i].dims` for the operators it knows; leaves the others unranked. What a lowering returns
// gets PyTorch's own dims in the end, so this serves the values in between.
void infer_dims(std::string_view op, std::span<const Value> inputs, std::span<const ir::Attribute> attributes,
                std::span<ir::TensorType> outputs);

// The dims of a broadcast of `a` and `b`, whichever of them are 1 when the model runs.
std::vector<Dim> broadcast_dims(std::span<const Dim> a, std::span<const Dim> b);

}  // namespace opbridge
