// Reductions that other lowerings use. Values have an opmath type (see common.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

using Axes = std::optional<std::vector<int64_t>>;  // missing or empty: all axes

// `op` of two tensors in the type to which PyTorch promotes them, in which small integers wrap around. For
// intermediate results whose type is not that of the call's result.
Value in_own_type(GraphBuilder& g, std::string_view op, Value a, Value b);

std::vector<int64_t> axes_of(const Axes& axes, Value value);

// The number of elements that are reduced to one.
Dim count_of(Value value, const Axes& axes);

// Sum and product.
Value sum_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);
Value product_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);

// The mean; NaN for no elements, as in PyTorch. ONNX does not specify this.
Value mean_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);

// Whether any of the booleans along `axes` is true.
Value any_along(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);

// The p-norm of order `order`, including 0 (the number of nonzero elements), inf (the greatest magnitude) and
// -inf (the least one).
Value vector_norm(GraphBuilder& g, Value x, const Scalar& order, const Axes& axes, bool keepdim);

// All elements, flattened, for a median of the whole tensor. An empty tensor becomes PyTorch's median of no
// elements: NaN, or the least integer.
Value elements_of_median(GraphBuilder& g, Value x);

// The factor by which renorm multiplies a slice with the norm `norm` to limit its norm to `most`.
Value renorm_factor(GraphBuilder& g, Value norm, const Scalar& most);

// The reduction of a loss, cast to the type of the call's result.
inline constexpr int64_t no_reduction = 0, mean_reduction = 1, sum_reduction = 2;
Value reduced(GraphBuilder& g, Value losses, int64_t reduction);

// The offsets (…, segments + 1) of the segments of `data` along `axis`, given by their lengths or offsets,
// and the reduction of each segment by the kernel of segment_reduce.
Value segment_offsets(GraphBuilder& g, Value data, std::optional<Value> lengths, std::optional<Value> offsets,
                      int64_t axis);
Value segments_reduced(GraphBuilder& g, Value x, Value offsets, std::optional<Value> initial,
                       const std::string& reduce);

// Maxima or minima and their indices. In PyTorch NaN is both the maximum and the minimum; ONNX does not
// specify ReduceMax and ArgMax for NaN.
class Extremum {
 public:
  // `self` is cast to its opmath type.
  Extremum(GraphBuilder& g, bool greatest, Value self);

  Value value(const Axes& axes, bool keepdim);    // in the opmath type
  Value index(int64_t axis, bool keepdim);        // index, int64
  Value any_nan(const Axes& axes, bool keepdim);  // bool; for floating point only

 private:
  GraphBuilder& g_;
  bool greatest_;
  Value x_;
  Value nan_;  // whether x is NaN; empty for integers
};

}  // namespace opbridge::lowering
