// What reading and writing by index share.
#pragma once

#include <optional>
#include <vector>

#include "lowering/common.h"

namespace opbridge::lowering {

// The index tensors of x[...], which broadcast to `dims`. A mask stands for as many axes as it has, and is
// the places where it holds.
struct Indices {
  std::vector<int64_t> axes;
  std::vector<Value> of_axis;  // int64, one for each of the axes
  Value places;                // instead of those, where a mask is the only index: (count, axes)
  std::vector<Dim> dims;

  // The axes side by side: `dims` stand in their place; otherwise they stand first.
  int64_t position() const;
  // (dims…, number of axes): the form of GatherND and ScatterND.
  Value columns(GraphBuilder& g) const;
  // The order that takes the indexed axes of a tensor of rank `rank` first.
  std::vector<int64_t> axes_first(int64_t rank) const;
};

// `self` gets another axis for each mask without axes in `given`, of which there are then none.
Indices read_indices(GraphBuilder& g, Value& self, const std::vector<std::optional<Value>>& given);

// The place of the only index among `given`; nothing where there are several, or none.
std::optional<size_t> only_index(const std::vector<std::optional<Value>>& given);

bool is_mask(Value index);

// The places of the elements that are not zero, a row of int64 for each of them: (count, rank).
Value places_of(GraphBuilder& g, Value mask);

enum class Reduction : uint8_t { none, add, multiply, max, min };

// ScatterElements and ScatterND in the kernel type of `data` where they reduce. `updates` of any type.
Value scatter_elements(GraphBuilder& g, Value data, Value indices, Value updates, int64_t axis,
                       Reduction reduction = Reduction::none);
Value scatter_nd(GraphBuilder& g, Value data, Value indices, Value updates,
                 Reduction reduction = Reduction::none);

// `self` with `src` at the places `rows`, which is 1-d, along `axis`. `src` broadcasts to that part.
Value scatter_rows(GraphBuilder& g, Value self, int64_t axis, Value rows, Value src,
                   Reduction reduction = Reduction::none);

// The indices with places that are no places of their axes moved to the nearest one.
std::vector<std::optional<Value>> clamped_indices(GraphBuilder& g, Value self,
                                                  std::vector<std::optional<Value>> given);

// The permutation that takes back another.
std::vector<int64_t> inverse(const std::vector<int64_t>& order);

}  // namespace opbridge::lowering
