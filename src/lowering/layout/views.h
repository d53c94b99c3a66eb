// Copies of a tensor in which `src` replaces what a view shows.
#pragma once

#include <optional>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// self[start:end:step] along `dim`.
Value slice_scatter(GraphBuilder& g, Value self, Value src, int64_t dim, const std::optional<Dim>& start,
                    const std::optional<Dim>& end, int64_t step);

// self[index] along `dim`.
Value select_scatter(GraphBuilder& g, Value self, Value src, int64_t dim, const Dim& index);

// The diagonal `offset` of the axes `dim1` and `dim2`, which is the last dim of `src`.
Value diagonal_scatter(GraphBuilder& g, Value self, Value src, int64_t offset, int64_t dim1, int64_t dim2);

}  // namespace opbridge::lowering
