// Helpers for reading and writing by index.
#pragma once

#include <optional>
#include <vector>

#include "lowering/common.h"

namespace opbridge::lowering {

// The index tensors of x[...], which broadcast to `dims`. A mask indexes as many axes as it has dims; it is
// replaced by the indices of its true elements.
struct Indices {
  std::vector<int64_t> axes;
  std::vector<Value> of_axis;  // int64, one for each of the axes
  Value mask_indices;          // replaces `of_axis` if a mask is the only index: (count, axes)
  std::vector<Dim> dims;

  // The axis of the result at which `dims` begin: that of the first indexed axis if the indexed axes are
  // adjacent, otherwise 0.
  int64_t position() const;
  // The indices as GatherND and ScatterND take them: (dims…, number of axes).
  Value columns(GraphBuilder& g) const;
  // The permutation of `rank` axes that moves the indexed ones to the front.
  std::vector<int64_t> axes_first(int64_t rank) const;
};

// Reads the index tensors `given`. Each 0-d mask becomes a 1-d mask, for which `self` gets a new axis.
Indices read_indices(GraphBuilder& g, Value& self, const std::vector<std::optional<Value>>& given);

// The axis of the only index in `given`; nothing if there are several or none.
std::optional<size_t> only_index(const std::vector<std::optional<Value>>& given);

bool is_mask(Value index);

// The indices of the nonzero elements, one int64 row for each: (count, rank).
Value nonzero_indices(GraphBuilder& g, Value mask);

enum class Reduction : uint8_t { none, add, multiply, max, min };

// ScatterElements and ScatterND. With a reduction they compute in the opmath type of `data`. `updates` may
// have any element type.
Value scatter_elements(GraphBuilder& g, Value data, Value indices, Value updates, int64_t axis,
                       Reduction reduction = Reduction::none);
Value scatter_nd(GraphBuilder& g, Value data, Value indices, Value updates,
                 Reduction reduction = Reduction::none);

// Writes `src` to the indices `rows` (1-d) of `axis` in a copy of `self`. `src` broadcasts to that part.
Value scatter_rows(GraphBuilder& g, Value self, int64_t axis, Value rows, Value src,
                   Reduction reduction = Reduction::none);

// The indices, clamped to the bounds of their axes.
std::vector<std::optional<Value>> clamped_indices(GraphBuilder& g, Value self,
                                                  std::vector<std::optional<Value>> given);

// Converts negative indices to indices from the start, where ONNX requires it: before opset 11.
Value from_start(GraphBuilder& g, Value index, const Dim& size);

// The inverse permutation.
std::vector<int64_t> inverse(const std::vector<int64_t>& order);

}  // namespace opbridge::lowering
