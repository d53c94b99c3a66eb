// Infers the dims of values that `g.op` makes.
#pragma once

#include <functional>

#include "opbridge/symbolic.h"

namespace opbridge::builder {

// Returns the elements of an int64 tensor of sizes that is a constant or was made by GraphBuilder::sizes;
// nothing for other tensors.
using KnownSizes = std::function<std::optional<std::vector<Dim>>(Value)>;

// Sets `outputs[i].dims` of the operators that it knows, if the dims follow from the inputs; leaves others
// unranked. It serves intermediate values: the results of a lowering get PyTorch's dims.
void infer_dims(std::string_view op, std::span<const Value> inputs, std::span<const ir::Attribute> attributes,
                std::span<ir::TensorType> outputs, const KnownSizes& known_sizes);

// Sets `outputs[0].dims` of the operators whose result size depends on the data: `unknown_size` makes a new
// symbol.
void infer_found_dims(std::string_view op, std::span<const Value> inputs, std::span<ir::TensorType> outputs,
                      const std::function<Dim()>& unknown_size);

// The dims of a broadcast of `a` and `b`, correct even if symbolic dims are 1 when the model runs.
std::vector<Dim> broadcast_dims(std::span<const Dim> a, std::span<const Dim> b);

}  // namespace opbridge::builder
