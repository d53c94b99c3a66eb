// Evaluates ONNX nodes with constant inputs at export.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::tensor {

// The first output of `node`, whose inputs are all constant (`inputs`, null for an omitted one). Missing if
// the operator, the element type or the form is not supported. Results follow ONNX bit for bit for integers
// and bool. Floating-point results are rounded once, even if the runtime rounds more often.
std::optional<ir::Weight> evaluate(const ir::Node& node, std::span<const ir::Weight* const> inputs);

// Operators that only move elements: Reshape, Slice, Concat, Gather, Transpose, Expand, ….
std::optional<ir::Weight> evaluate_movement(const ir::Node& node, std::span<const ir::Weight* const> inputs);

// The elements of an int64 input; missing if it is not int64.
std::optional<std::vector<int64_t>> ints_of(std::span<const ir::Weight* const> inputs, size_t index);

// Evaluation makes no larger constants.
inline constexpr size_t largest_folded_bytes = size_t{1} << 21;

// A weight under construction.
struct NewWeight {
  ElementType element_type;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;

  NewWeight(ElementType type, std::vector<int64_t> shape);
  static bool fits(ElementType type, std::span<const int64_t> shape);
  std::byte* at(int64_t index) { return bytes.data() + index * static_cast<int64_t>(size_of(element_type)); }
  ir::Weight finish() &&;
};

std::vector<int64_t> row_major_strides(std::span<const int64_t> dims);
int64_t count_of(std::span<const int64_t> dims);
// Missing if a dim is negative or the count overflows.
std::optional<int64_t> checked_count(std::span<const int64_t> dims);

// Calls visit(linear index in the result, offset in elements) for a view with these strides (0 along
// broadcast axes).
template <class Visit>
void for_each_offset(std::span<const int64_t> dims, std::span<const int64_t> strides, int64_t start,
                     Visit visit) {
  const int64_t count = count_of(dims);
  std::vector<int64_t> index;
  index.resize(dims.size());
  int64_t offset = start;
  for (int64_t i = 0; i < count; ++i) {
    visit(i, offset);
    for (size_t axis = dims.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < dims[axis]) break;
      offset -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

// The broadcast shape of tensors of these shapes, which must be compatible.
std::vector<int64_t> broadcast_shape(std::initializer_list<std::span<const int64_t>> shapes);

// The strides that read a tensor of `dims` as broadcast to `result`; missing if it does not broadcast to that
// shape.
std::optional<std::vector<int64_t>> broadcast_strides(std::span<const int64_t> dims,
                                                      std::span<const int64_t> result);

}  // namespace opbridge::tensor
