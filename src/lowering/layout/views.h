// Copies of a tensor in which `src` replaces what a view shows.
#pragma once

#include <optional>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// value[start:end:step] along `axis`. Its size there is unknown if the step is.
Value strided_slice(GraphBuilder& g, Value value, int64_t axis, Value start, Value end, const Dim& step);

// self[start:end:step] along `dim`.
Value slice_scatter(GraphBuilder& g, Value self, Value src, int64_t dim, const std::optional<Dim>& start,
                    const std::optional<Dim>& end, const Dim& step);

// self[index] along `dim`.
Value select_scatter(GraphBuilder& g, Value self, Value src, int64_t dim, const Dim& index);

// The diagonal `offset` of the axes `dim1` and `dim2`, which is the last dim of `src`.
Value diagonal_scatter(GraphBuilder& g, Value self, Value src, int64_t offset, int64_t dim1, int64_t dim2);

}  // namespace opbridge::lowering
