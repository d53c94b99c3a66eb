// Helpers that several families of lowerings share.
#pragma once

#include <limits>

#include "builder/constant_limit.h"
#include "opbridge/symbolic.h"
#include "tensor/shape.h"

namespace opbridge::lowering {

// The element type in which PyTorch computes `type` (at::opmath_type): float32 for float16 and bfloat16,
// which it rounds only at the end. Also int32 for bool, since ONNX has no arithmetic of bools.
ElementType opmath_type(ElementType type);

// The element type in which PyTorch's kernels evaluate an expression of integers, C++'s integral promotion:
// int32 for narrower ones.
ElementType integral_promotion(ElementType type);

// `value` as an operand of a PyTorch operator of `type`, in the opmath type of `type`. Refuses complex
// numbers.
Value operand(GraphBuilder& g, Value value, ElementType type);

// `value` as an operand, in `type` itself, of an operator that rounds nothing in any type: it compares,
// selects, changes signs or rounds to integers. Refuses complex numbers.
Value exact_operand(GraphBuilder& g, Value value, ElementType type);

// Makes one node `op`, in the element type of the call's result, in which PyTorch computes.
Value elementwise(GraphBuilder& g, std::string_view op, std::vector<Value> operands,
                  std::vector<Attr> attributes = {});

// Calls `compute` with `self` in the opmath type of the call's result, and casts what it returns to the
// result's type.
template <class F>
Value in_opmath_type(GraphBuilder& g, Value self, F compute) {
  const ElementType type = g.result().element_type;
  return g.cast(compute(operand(g, self, type)), type);
}

// The same for a function of exact operators, which computes in the type of the call's result itself.
template <class F>
Value in_result_type(GraphBuilder& g, Value self, F compute) {
  return compute(exact_operand(g, self, g.result().element_type));
}

// torch.result_type of tensors and Python numbers.
ElementType result_type(const GraphBuilder& g, std::span<const Value> operands);

// The value of an operand that is a Python number known at export; nothing for any other operand.
std::optional<double> static_number(GraphBuilder& g, Value value);

// Python's % and //: the remainder has the sign of the divisor. `a` and `b` have the same opmath type;
// `divisor` is the value of `b`, if it is known.
Value floor_modulo(GraphBuilder& g, Value a, Value b, std::optional<double> divisor = std::nullopt);
Value floor_quotient(GraphBuilder& g, Value a, Value b, std::optional<double> divisor = std::nullopt);

// Interpolates from the nearer of the two ends, as torch.lerp does. All values have the same floating-point
// opmath type; `known` is the value of `weight`, if it is known.
Value lerp(GraphBuilder& g, Value start, Value end, Value weight, std::optional<double> known = std::nullopt);

// Rounds towards zero. `value` is floating point.
Value truncate(GraphBuilder& g, Value value);

// log(1 + x) and log(1 + exp(x)), accurate where the sum would lose digits. `x` has a floating-point opmath
// type.
Value log1p(GraphBuilder& g, Value x);
Value softplus(GraphBuilder& g, Value x);

// exp(x) - 1, as (exp(x) + 1) * tanh(x / 2), which does not cancel. `x` has an opmath type.
Value expm1(GraphBuilder& g, Value x);

// The sign bit of every value but NaN, -0.0 included. `value` has an opmath type.
Value is_negative(GraphBuilder& g, Value value);

// The lowest and the highest value of a floating-point or integer type: infinities for floating point.
Scalar lowest_value(ElementType type);
Scalar highest_value(ElementType type);

double greatest_finite(ElementType type);

// `x` has an opmath type.
Value log_softmax(GraphBuilder& g, Value x, int64_t axis);

// log(exp(a) + exp(b)). Both have the same floating-point opmath type.
Value logaddexp(GraphBuilder& g, Value a, Value b);

// The axes below `rank`, in order, without `axis`. All of them if there is no such axis.
std::vector<int64_t> axes_except(int64_t axis, int64_t rank);

inline constexpr int64_t end_of_axis = std::numeric_limits<int64_t>::max();  // as the end of a slice

// `value` with the elements along an axis in the opposite order.
Value reversed(GraphBuilder& g, Value value, int64_t axis);

// Throw std::out_of_range if there are fewer than `count` dims. The first returns a copy to append to.
std::vector<Dim> first_dims(std::span<const Dim> dims, int64_t count);
std::span<const Dim> last_dims(std::span<const Dim> dims, int64_t count);

using tensor::element_count;
using tensor::may_be_empty;
Dim element_count(Value value);
Value flat(GraphBuilder& g, Value value);  // reshaped to one dim

// torch.movedim: moves the axes `source` to `destination`; the other axes keep their order. Negative axes
// count from the end.
Value move_axes(GraphBuilder& g, Value self, std::span<const int64_t> source,
                std::span<const int64_t> destination);
Value move_axis(GraphBuilder& g, Value value, int64_t from, int64_t to);

// Splits `self` along `dim` into parts with the sizes of the call's results.
std::vector<Value> split_as_results(GraphBuilder& g, Value self, int64_t dim);

// A tensor of shape `dims` filled with `value`.
Value filled(GraphBuilder& g, std::span<const Dim> dims, const Scalar& value, ElementType type);

// The int64 sequence start, start + step, … of `count` elements; a constant if all arguments are known.
Value arithmetic(GraphBuilder& g, const Dim& start, const Dim& step, const Dim& count);

}  // namespace opbridge::lowering
