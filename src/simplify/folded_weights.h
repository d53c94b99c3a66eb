// Helpers of the passes that multiply factors into weights.
#pragma once

#include <span>

#include "opbridge/ir.h"

namespace opbridge::simplification {

// The number of bytes of weights that a pass may copy. Weights are otherwise borrowed, so this bounds the
// memory of an export.
inline constexpr size_t most_folded_bytes = size_t{96} << 20;

// `weight` (float32) times one factor for each index of `axis`.
ir::Weight scaled(const ir::Weight& weight, size_t axis, std::span<const float> factors);

// The transpose of a float32 matrix, with each column multiplied by a factor.
ir::Weight transposed_and_scaled(const ir::Weight& matrix, std::span<const float> factors);

}  // namespace opbridge::simplification
