// Dims of what `g.op` makes, where they follow simply from the inputs.
#pragma once

#include <functional>

#include "opbridge/symbolic.h"

namespace opbridge {

// The elements of an int64 tensor that holds sizes: a constant, or what GraphBuilder::sizes computes. Missing
// for other tensors.
using KnownSizes = std::function<std::optional<std::vector<Dim>>(Value)>;

// Fills in `outputs[i].dims` for the operators it knows, where the dims follow from the inputs; leaves the
// others unranked. What a lowering returns gets PyTorch's own dims in the end, so this serves the values in
// between.
void infer_dims(std::string_view op, std::span<const Value> inputs, std::span<const ir::Attribute> attributes,
                std::span<ir::TensorType> outputs, const KnownSizes& known_sizes);

// The dims of a broadcast of `a` and `b`, whichever of them are 1 when the model runs.
std::vector<Dim> broadcast_dims(std::span<const Dim> a, std::span<const Dim> b);

}  // namespace opbridge
