// What several families of lowerings share.
#pragma once

#include <limits>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// The element type to compute `type` in: itself, or the next wider one where ONNX Runtime lacks kernels.
// Every version has them for float32, float64, int32 and int64; they wrap and round as PyTorch's do once the
// result is cast back. PyTorch, too, computes float16 and bfloat16 in float32, and rounds in the end.
ElementType kernel_type(ElementType type);

// `value` as an operand of a PyTorch operator that computes in `type`, in the kernel type of `type`. Refuses
// complex numbers.
Value operand(GraphBuilder& g, Value value, ElementType type);

// `op` of operands in the type that PyTorch computes in, which is that of the call's result.
Value elementwise(GraphBuilder& g, std::string_view op, std::vector<Value> operands,
                  std::vector<Attr> attributes = {});

// What `compute` makes of `self` in the kernel type of the call's result.
template <class F>
Value in_kernel_type(GraphBuilder& g, Value self, F compute) {
  const ElementType type = g.result().element_type;
  return g.cast(compute(operand(g, self, type)), type);
}

// torch.result_type of tensors and Python numbers.
ElementType result_type(const GraphBuilder& g, std::span<const Value> operands);

// MatMul of what makes the call's result.
Value matmul(GraphBuilder& g, Value a, Value b);

// The value of a Python number among the operands; nothing for tensors and for numbers known only at run
// time.
std::optional<double> static_number(GraphBuilder& g, Value value);

// Python's % and //: the remainder has the sign of the divisor. Both in one kernel type; `divisor` is `b`,
// where it is known.
Value floor_modulo(GraphBuilder& g, Value a, Value b, std::optional<double> divisor = std::nullopt);
Value floor_quotient(GraphBuilder& g, Value a, Value b, std::optional<double> divisor = std::nullopt);

// From the nearer of the two ends, as torch.lerp computes it. All in one kernel type of floating point;
// `known` is `weight`, where it is known.
Value lerp(GraphBuilder& g, Value start, Value end, Value weight, std::optional<double> known = std::nullopt);

// Rounded towards zero. `value` in a kernel type of floating point.
Value truncate(GraphBuilder& g, Value value);

// log(1 + x), and log(1 + exp(x)), accurate where the sum would be rounded. `x` in a kernel type of floating
// point.
Value log1p(GraphBuilder& g, Value x);
Value softplus(GraphBuilder& g, Value x);

// The sign bit, that of -0.0 too; not NaN's. `value` in a kernel type.
Value is_negative(GraphBuilder& g, Value value);

double greatest_finite(ElementType type);

// `x` in a kernel type.
Value log_softmax(GraphBuilder& g, Value x, int64_t axis);

// log(exp(a) + exp(b)). Both in one kernel type of floating point.
Value logaddexp(GraphBuilder& g, Value a, Value b);

inline constexpr int64_t end_of_axis = std::numeric_limits<int64_t>::max();  // as the end of a slice

// Throw std::out_of_range where there are fewer.
std::vector<Dim> first_dims(std::span<const Dim> dims, int64_t count);  // to go on with
std::span<const Dim> last_dims(std::span<const Dim> dims, int64_t count);

// Refuses more elements than a constant can have in a file: 2 GB of them.
void check_constant(const GraphBuilder& g, int64_t count);

Dim element_count(std::span<const Dim> dims);
Dim element_count(Value value);
Value flat(GraphBuilder& g, Value value);  // with one dim

// torch.movedim: with axes in other places, the others in order. Negative ones count from the end.
Value move_axes(GraphBuilder& g, Value self, std::span<const int64_t> source,
                std::span<const int64_t> destination);
Value move_axis(GraphBuilder& g, Value value, int64_t from, int64_t to);

// One output for each part, cut along `dim` as PyTorch cut it.
std::vector<Value> split_as_results(GraphBuilder& g, Value self, int64_t dim);

// A tensor of `dims`, all `value`.
Value filled(GraphBuilder& g, std::span<const Dim> dims, const Scalar& value, ElementType type);

// start, start + step, … as int64, `count` of them; a constant where all is known.
Value arithmetic(GraphBuilder& g, const Dim& start, const Dim& step, const Dim& count);

}  // namespace opbridge::lowering
