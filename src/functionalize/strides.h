// The strides of views, as far as they are known. They decide whether `reshape` returns a view or a copy.
// Strides are in elements; graph inputs are contiguous, as in ONNX, unless the program notes their layout.
#pragma once

#include <optional>
#include <vector>

#include "functionalize/aliases.h"
#include "opbridge/ir.h"

namespace opbridge::functionalization {

using Strides = std::vector<Dim>;

enum class Certainty : uint8_t { no, yes, unknown };

// Whether the result of a node that allocates memory is certainly contiguous if all its tensor arguments are.
bool makes_contiguous(const ir::Node& node);

// Whether a view is certainly contiguous, judged by its base and its operator.
bool stays_contiguous(const View& view);

// Nothing if they are unknown.
const std::optional<Strides>& strides_of(View& view);

// Whether elements of a tensor with these strides may share memory: not if each stride is beyond all elements
// that the axes of smaller strides reach.
bool may_share_memory(const std::vector<Dim>& dims, const Strides& strides);

// The same for the copy that select_scatter and its like make before they write: it keeps strides that
// overlap, unless elements are expanded.
bool may_share_memory_in_copy(View& view);

Certainty is_contiguous(View& view);

// The permutation of the axes that makes a tensor row-major in memory without gaps; nothing if there is none
// or none is known.
std::optional<std::vector<int64_t>> order_in_memory(const std::vector<Dim>& dims, const Strides& strides);

// Whether the view can be reshaped to the type `as` without a copy.
Certainty can_view(View& view, const ir::TensorType& as);

// Whether reshaping `view` to type `as` certainly gives these strides.
bool views_with(View& view, const ir::TensorType& as, const Strides& strides);

// The same, for the layouts that the views would have if the whole storage were contiguous.
Certainty would_be_contiguous(const View& view);
Certainty could_view(const View& view, const ir::TensorType& as);

}  // namespace opbridge::functionalization
