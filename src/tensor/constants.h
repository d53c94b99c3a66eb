// Constant tensors made while lowering.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge {

// A weight that owns its bytes.
ir::Weight owned_weight(ElementType type, std::vector<int64_t> dims, std::vector<std::byte> bytes);

// A 0-d tensor. Throws Error(unsupported) where `value` is known only at run time or has no equal in `type`
// (complex into real).
ir::Weight scalar_weight(const Scalar& value, ElementType type);

// The elements of `weight` converted as Cast does (float to integer truncates; to bool: unequal zero).
// Missing where opbridge does not convert these types, and where a float is beyond the integers.
std::optional<ir::Weight> convert_weight(const ir::Weight& weight, ElementType type);

// Whether converting to `type` keeps every element's value.
bool converts_exactly(const ir::Weight& weight, ElementType type);

// Whether a symbolic dim can come to be 0, as far as the least values of its symbols tell.
bool may_be_zero(const Dim& dim);

// What Reshape is given to make `to` of a tensor of dims `from`: 0 for a dim that stays where it is, -1 for
// one that is not constant. Missing where that cannot say it.
std::optional<std::vector<int64_t>> constant_reshape(std::span<const Dim> from, std::span<const Dim> to);

}  // namespace opbridge
