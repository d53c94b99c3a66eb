// Reductions that other lowerings are made of. Values are in a kernel type (see common.h).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

using Axes = std::optional<std::vector<int64_t>>;  // none, or empty: all

// `op` of two tensors in the type to which PyTorch promotes them, in which small integers wrap around; for
// what is of another type in the end.
Value in_own_type(GraphBuilder& g, std::string_view op, Value a, Value b);

std::vector<int64_t> axes_of(const Axes& axes, Value value);

// How many elements make one element of the result.
Dim count_of(Value value, const Axes& axes);

// `x`, in float64 where so many elements become one that ONNX Runtime's sum of float32 is off by more than
// PyTorch's, which adds blocks.
Value widened_for_sum(GraphBuilder& g, Value x, const Axes& axes);

// Integers wrap around, as in PyTorch; ONNX Runtime reduces them in float64 and converts the
// result. `x` in a kernel type.
Value sum_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);
Value product_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);

// NaN for no elements, as in PyTorch; ONNX leaves that open.
Value mean_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);

// Whether one of the booleans along `axes` is true.
Value any_along(GraphBuilder& g, Value x, const Axes& axes, bool keepdim);

// The p-norm of order `order`: also 0 (how many are not 0) and the infinities (greatest and least size).
Value vector_norm(GraphBuilder& g, Value x, double order, const Axes& axes, bool keepdim);

// All elements, in one axis. Where there are none, the median of none: NaN, or the least integer.
Value elements_of_median(GraphBuilder& g, Value x);

// By what renorm multiplies that whose norm is `norm`, so that it comes to be at most `most`.
Value renorm_factor(GraphBuilder& g, Value norm, const Scalar& most);

// The last step of a loss, cast to the type of the call's result. `losses` in a kernel type.
inline constexpr int64_t no_reduction = 0, mean_reduction = 1, sum_reduction = 2;
Value reduced(GraphBuilder& g, Value losses, int64_t reduction);

// Greatest or least elements and their places. ONNX leaves open what ReduceMax and ArgMax make of NaN; in
// PyTorch it wins.
class Extremum {
 public:
  // `self` is cast to its kernel type.
  Extremum(GraphBuilder& g, bool greatest, Value self);

  Value value(const Axes& axes, bool keepdim);    // in the kernel type
  Value place(int64_t axis, bool keepdim);        // int64
  Value any_nan(const Axes& axes, bool keepdim);  // bool; of floating point only

 private:
  GraphBuilder& g_;
  bool greatest_;
  Value x_;
  Value nan_;  // whether x is NaN; none for integers
};

}  // namespace opbridge::lowering
