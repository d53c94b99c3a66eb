#include "lowering/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ir/queries.h"
#include "lowering/softmax.h"
#include "tensor/constants.h"

namespace opbridge::lowering {

ElementType opmath_type(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return ElementType::int32;
    case ElementType::float16:
    case ElementType::bfloat16:
      return ElementType::float32;
    default:
      return type;
  }
}

ElementType integral_promotion(ElementType type) {
  return is_integral(type) && bits_of(type) < 32 ? ElementType::int32 : type;
}

namespace {

void check_real(const GraphBuilder& g, Value value, ElementType type) {
  if (is_complex(type) || is_complex(value.element_type()))
    g.refuse("complex numbers have no counterpart in ONNX; compute with real and imaginary part");
}

}  // namespace

Value operand(GraphBuilder& g, Value value, ElementType type) {
  check_real(g, value, type);
  // PyTorch does not round a Python number to float16 or bfloat16 before it computes.
  const bool as_it_is = g.is_number(value) && is_floating_point(type);
  return g.cast(as_it_is ? value : g.cast(value, type), opmath_type(type));
}

Value exact_operand(GraphBuilder& g, Value value, ElementType type) {
  check_real(g, value, type);
  return g.cast(value, type);
}

Value elementwise(GraphBuilder& g, std::string_view op, std::vector<Value> operands,
                  std::vector<Attr> attributes) {
  const ElementType type = g.result().element_type;
  // A single operator rounds or wraps around once in any case, even without a wider type.
  const bool as_it_is = !is_complex(type) && std::ranges::none_of(operands, [&](Value value) {
    return is_complex(value.element_type()) || (is_floating_point(type) && g.is_number(value));
  });
  for (Value& value : operands) value = as_it_is ? g.cast(value, type) : operand(g, value, type);
  std::vector<Operand> all{std::move(operands)};
  all.insert(all.end(), attributes.begin(), attributes.end());
  return g.cast(g.op_list(op, 1, std::move(all)).front(), type);
}

ElementType result_type(const GraphBuilder& g, std::span<const Value> operands) {
  using Category = PromotionOperand::Category;
  std::vector<PromotionOperand> kinds;
  for (Value value : operands) {
    const Category category = g.is_number(value)                       ? Category::number
                              : value.ranked() && value.dims().empty() ? Category::zero_dim_tensor
                                                                       : Category::tensor;
    kinds.push_back({value.element_type(), category});
  }
  return promote(kinds);
}

std::optional<double> static_number(GraphBuilder& g, Value value) {
  if (!g.is_number(value) || is_complex(value.element_type())) return std::nullopt;
  return g.cast(value, ElementType::float64).weight()->as<double>()[0];
}

namespace {

// Whether a nonzero remainder and the divisor have different signs.
Value signs_differ(GraphBuilder& g, Value remainder, Value divisor, std::optional<double> known_divisor) {
  Value zero = g.scalar_like(remainder, 0);
  if (known_divisor && *known_divisor > 0) return g.op("Less", remainder, zero);
  if (known_divisor && *known_divisor < 0) return g.op("Greater", remainder, zero);
  Value unequal = g.op("Xor", g.op("Less", remainder, zero), g.op("Less", divisor, zero));
  return g.op("And", g.op("Not", g.op("Equal", remainder, zero)), unequal);
}

// Division of the least integer by -1 traps in ONNX Runtime.
bool is_integer_by_minus_one(ElementType type, std::optional<double> divisor) {
  return is_integral(type) && !tensor::is_unsigned(type) && divisor == -1.0;
}

}  // namespace

Value floor_modulo(GraphBuilder& g, Value a, Value b, std::optional<double> divisor) {
  if (is_integer_by_minus_one(a.element_type(), divisor)) return g.op("Sub", a, a);
  if (!is_floating_point(a.element_type())) return g.op("Mod", a, b);
  Value rest = g.op("Mod", a, b, attr("fmod", 1));
  return g.op("Where", signs_differ(g, rest, b, divisor), g.op("Add", rest, b), rest);
}

Value floor_quotient(GraphBuilder& g, Value a, Value b, std::optional<double> divisor) {
  if (is_integer_by_minus_one(a.element_type(), divisor)) return g.op("Neg", a);
  Value rest = g.op("Mod", a, b, attr("fmod", 1));
  // The number may have wrapped around when it became an integer of the tensor's type.
  const bool is_integral = !is_floating_point(a.element_type());
  Value one_less = g.cast(signs_differ(g, rest, b, is_integral ? std::nullopt : divisor), a.element_type());
  // Div truncates integers.
  if (is_integral) return g.op("Sub", g.op("Div", a, b), one_less);
  // Not the floor of the quotient, which is rounded: 1 // 0.1 is 9.
  Value quotient = g.op("Div", g.op("Sub", a, rest), b);
  Value result = g.op("Round", g.op("Sub", quotient, one_less));
  if (divisor && *divisor != 0) return result;
  return g.op("Where", g.op("Equal", b, g.scalar_like(b, 0)), g.op("Div", a, b), result);
}

Value lerp(GraphBuilder& g, Value start, Value end, Value weight, std::optional<double> known) {
  Value difference = g.op("Sub", end, start);
  const auto from_start = [&] { return g.op("Add", start, g.op("Mul", weight, difference)); };
  const auto from_end = [&] {
    return g.op("Sub", end, g.op("Mul", difference, g.op("Sub", g.scalar_like(weight, 1), weight)));
  };
  if (known) return std::abs(*known) < 0.5 ? from_start() : from_end();
  Value near_start = g.op("Less", g.op("Abs", weight), g.scalar_like(weight, 0.5));
  return g.op("Where", near_start, from_start(), from_end());
}

Value truncate(GraphBuilder& g, Value value) {
  Value negative = g.op("Less", value, g.scalar_like(value, 0));
  return g.op("Where", negative, g.op("Ceil", value), g.op("Floor", value));
}

Value log1p(GraphBuilder& g, Value x) {
  // Rounding u = 1 + x loses x - (u - 1). To first order the error of log(u) is this loss divided by u.
  Value one = g.scalar_like(x, 1);
  Value u = g.op("Add", x, one), log = g.op("Log", u);
  Value lost = g.op("Div", g.op("Sub", g.op("Sub", u, one), x), u);
  Value small = g.op("Less", g.op("Abs", x), g.scalar_like(x, 0.5));
  return g.op("Where", small, g.op("Sub", log, lost), log);
}

Value expm1(GraphBuilder& g, Value x) {
  Value sum = g.op("Add", g.op("Exp", x), g.scalar_like(x, 1));
  return g.op("Mul", sum, g.op("Tanh", g.op("Mul", x, g.scalar_like(x, 0.5))));
}

Value softplus(GraphBuilder& g, Value x) {
  if (x.element_type() != ElementType::float64) return g.op("Softplus", x);
  Value small = log1p(g, g.op("Exp", g.op("Neg", g.op("Abs", x))));
  return g.op("Add", g.op("Max", x, g.scalar_like(x, 0)), small);
}

Value softmax_node(GraphBuilder& g, const char* op, Value x, int64_t axis) {
  const int64_t last = x.rank() - 1;
  axis = wrap_axis(axis, x.rank());
  if (g.opset() >= 13 || axis == last) return g.op(op, x, attr("axis", axis));
  // Before opset 13, the operator treats all axes from the given one on as one.
  std::vector<int64_t> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis], order[last]);
  return g.transpose(g.op(op, g.transpose(x, order), attr("axis", last)), order);
}

Value log_softmax(GraphBuilder& g, Value x, int64_t axis) { return softmax_node(g, "LogSoftmax", x, axis); }

Value logaddexp(GraphBuilder& g, Value a, Value b) {
  Value distance = g.op("Abs", g.op("Sub", a, b));
  Value sum = g.op("Add", g.op("Max", a, b), softplus(g, g.op("Neg", distance)));
  // The difference of equal infinities is NaN.
  Value twice = g.op("Add", a, g.scalar_like(a, std::numbers::ln2));
  return g.op("Where", g.op("Equal", a, b), twice, sum);
}

namespace {

// Whether the value is a sum, or elements of one. A sum of -0 alone is 0 in PyTorch, and -0 in ONNX Runtime.
bool is_sum(const ir::Value& value) {
  static constexpr std::array<std::string_view, 4> sums{"CumSum", "Einsum", "ReduceMean", "ReduceSum"};
  const ir::Node* node = value.producer;
  while (node && (ir::moves_elements(*node) || node->op == "Cast")) node = node->inputs.at(0)->producer;
  return node && ir::is_one_of(sums, *node);
}

}  // namespace

Value is_negative(GraphBuilder& g, Value value) {
  Value zero = g.scalar_like(value, 0);
  Value below = g.op("Less", value, zero);
  if (!is_floating_point(value.element_type()) || is_sum(*value.get())) return below;
  return g.op("Or", below, g.op("Less", g.op("Reciprocal", value), zero));
}

namespace {

// By how many bits integers of the type are shorter than those of 64 bits.
unsigned missing_bits(ElementType type) {
  if (!is_integral(type) && type != ElementType::boolean)
    throw std::invalid_argument(fmt::format("no least or largest number of {}", name(type)));
  return 64 - bits_of(type);
}

}  // namespace

Scalar lowest_value(ElementType type) {
  if (is_floating_point(type)) return -INFINITY;
  if (tensor::is_unsigned(type)) return int64_t{0};
  return std::numeric_limits<int64_t>::min() >> missing_bits(type);
}

Scalar highest_value(ElementType type) {
  if (is_floating_point(type)) return INFINITY;
  if (tensor::is_unsigned(type))
    return static_cast<int64_t>(std::numeric_limits<uint64_t>::max() >> missing_bits(type));
  return std::numeric_limits<int64_t>::max() >> missing_bits(type);
}

double greatest_finite(ElementType type) {
  switch (type) {
    case ElementType::float16:
      return 65504;
    case ElementType::bfloat16:
      return 0x1.FEp127;
    case ElementType::float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

namespace {

size_t checked_count(std::span<const Dim> dims, int64_t count) {
  if (count < 0 || std::cmp_greater(count, dims.size()))
    throw std::out_of_range(fmt::format("{} of {} dims", count, dims.size()));
  return static_cast<size_t>(count);
}

}  // namespace

std::vector<Dim> first_dims(std::span<const Dim> dims, int64_t count) {
  const std::span<const Dim> first = dims.first(checked_count(dims, count));
  return {first.begin(), first.end()};
}

std::span<const Dim> last_dims(std::span<const Dim> dims, int64_t count) {
  return dims.last(checked_count(dims, count));
}

Dim element_count(Value value) { return element_count(value.dims()); }

std::vector<int64_t> axes_except(int64_t axis, int64_t rank) {
  std::vector<int64_t> others;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) others.push_back(i);
  }
  return others;
}

Value flat(GraphBuilder& g, Value value) {
  return value.rank() == 1 ? value : g.reshape(value, std::vector{element_count(value)});
}

Value move_axes(GraphBuilder& g, Value self, std::span<const int64_t> source,
                std::span<const int64_t> destination) {
  if (self.rank() == 0) return self;
  const std::vector<int64_t> from = wrap_axes(source, self.rank()), to = wrap_axes(destination, self.rank());
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < self.rank(); ++axis) {
    if (std::ranges::find(from, axis) == from.end()) order.push_back(axis);
  }
  std::vector<size_t> by_target(to.size());
  std::iota(by_target.begin(), by_target.end(), 0);
  std::ranges::sort(by_target, {}, [&](size_t i) { return to[i]; });
  for (size_t i : by_target) {
    if (to[i] > static_cast<int64_t>(order.size())) g.refuse("an axis is named twice");
    order.insert(order.begin() + to[i], from.at(i));
  }
  return g.transpose(self, order);
}

Value move_axis(GraphBuilder& g, Value value, int64_t from, int64_t to) {
  return move_axes(g, value, {&from, 1}, {&to, 1});
}

std::vector<Value> split_as_results(GraphBuilder& g, Value self, int64_t dim) {
  dim = wrap_axis(dim, self.rank());
  std::vector<Dim> parts;
  for (size_t i = 0; i < g.result_count(); ++i) parts.push_back(g.result(i).dims->at(dim));
  return g.split(self, dim, parts);
}

Value reversed(GraphBuilder& g, Value value, int64_t axis) {
  const ir::TensorType type = value.type();
  return g.typed(g.slice(value, axis, -1, std::numeric_limits<int64_t>::min(), -1), type);
}

Value filled(GraphBuilder& g, std::span<const Dim> dims, const Scalar& value, ElementType type) {
  if (dims.empty()) return g.scalar(value, type);
  if (type == ElementType::bfloat16) return g.cast(filled(g, dims, value, ElementType::float32), type);
  if (!value.is_static()) return g.expand(g.scalar(value, type), dims);
  ir::Weight element = tensor::scalar_weight(value, type);
  element.dims = {1};
  return g.op("ConstantOfShape", g.sizes(dims), attr("value", std::move(element)));
}

Value arithmetic(GraphBuilder& g, const Dim& start, const Dim& step, const Dim& count) {
  if (start.is_static() && step.is_static() && count.is_static()) {
    check_constant(g, count.value());
    std::vector<int64_t> values(count.value());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = (start + step * Dim(static_cast<int64_t>(i))).value();
    return g.ints(values);
  }
  Value zero = g.scalar(0, ElementType::int64), one = g.scalar(1, ElementType::int64);
  Value range = g.op("Range", zero, g.size(count), one);
  g.typed(range, std::vector{count});
  if (!step.is(1)) range = g.op("Mul", range, g.size(step));
  if (!start.is(0)) range = g.op("Add", range, g.size(start));
  return range;
}

}  // namespace opbridge::lowering
