// What the passes that multiply factors into weights have in common.
#pragma once

#include <span>

#include "opbridge/ir.h"

namespace opbridge {

// How many bytes of weights a pass may copy, which otherwise stay where they are: as much as keeps an export
// small.
inline constexpr size_t most_folded_bytes = size_t{96} << 20;

// `weight`, of float32, times one factor for each index of `axis`.
ir::Weight scaled(const ir::Weight& weight, size_t axis, std::span<const float> factors);

// The transpose of a matrix of float32, times one factor for each of its columns.
ir::Weight transposed_and_scaled(const ir::Weight& matrix, std::span<const float> factors);

}  // namespace opbridge
