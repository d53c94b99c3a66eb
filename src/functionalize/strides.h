// Where the elements of a view lie in memory, as far as it is known: this decides whether `reshape` returns a
// view or a copy. Strides are in elements; those of a graph input are of a contiguous tensor, as ONNX has it.
#pragma once

#include <optional>
#include <vector>

#include "functionalize/aliases.h"
#include "opbridge/ir.h"

namespace opbridge::functionalization {

using Strides = std::vector<Dim>;

enum class Certainty : uint8_t { no, yes, unknown };

// Whether the result of the node lies in memory contiguously for certain, given that all its tensor arguments
// do. The node makes new memory.
bool makes_contiguous(const ir::Node& node);

// Whether a view is contiguous for certain, judged by its base and its operator alone.
bool stays_contiguous(const View& view);

// Nothing where they are not known.
const std::optional<Strides>& strides_of(View& view);

Certainty is_contiguous(View& view);

// The order of the axes in which the elements of a tensor lie row-major in memory, without gaps; missing
// where there is none, or none that is known.
std::optional<std::vector<int64_t>> order_in_memory(const std::vector<Dim>& dims, const Strides& strides);

// Whether the elements of the view can be seen as `dims` without a copy.
Certainty can_view(View& view, const ir::TensorType& as);

}  // namespace opbridge::functionalization
