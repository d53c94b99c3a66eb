// Constant tensors that lowerings make.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::tensor {

// A weight that owns its bytes.
ir::Weight owned_weight(ElementType type, std::vector<int64_t> dims, std::vector<std::byte> bytes);

// A 0-d tensor. Throws Error(unsupported) if `value` is known only at run time, or if `type` cannot represent
// it (complex in a real type).
ir::Weight scalar_weight(const Scalar& value, ElementType type);

// The elements of `weight` converted as by Cast: floats are truncated to integers, nonzero values become
// true. Missing if opbridge does not convert between these types, or if a float is out of the integer range.
std::optional<ir::Weight> convert_weight(const ir::Weight& weight, ElementType type);

bool is_unsigned(ElementType type);

// Whether converting to `type` keeps every element's value.
bool converts_exactly(const ir::Weight& weight, ElementType type);

// The value of a weight of one element; missing if it has several, or is not a real number.
std::optional<double> number_of(const ir::Weight& weight);

// The shape operand with which Reshape turns a tensor of dims `from` into `to`: 0 for an unchanged dim, -1
// for one that is not constant. Missing if these cannot express the shape.
std::optional<std::vector<int64_t>> constant_reshape(std::span<const Dim> from, std::span<const Dim> to);

}  // namespace opbridge::tensor
