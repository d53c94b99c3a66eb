// Comparisons, and selections between values.
#include <fmt/format.h>

#include <cmath>

#include "lowering/add.h"
#include "lowering/kernel.h"
#include "tensor/constants.h"

namespace opbridge::lowering {
namespace {

using Binary = Value (*)(GraphBuilder& g, Value a, Value b);

Value compare(GraphBuilder& g, std::string_view op, Value a, Value b) {
  const Value both[] = {a, b};
  const ElementType type = result_type(g, both);
  // Comparisons round a Python number to the tensors' type first, as PyTorch does.
  return g.op(op, exact_operand(g, a, type), exact_operand(g, b, type));
}

// The maximum or the minimum; NaN if either is NaN.
Value extremum(GraphBuilder& g, bool greatest, Value a, Value b) {
  const ElementType type = g.result().element_type;
  if (type == ElementType::boolean) return g.op(greatest ? "Or" : "And", g.cast(a, type), g.cast(b, type));
  return elementwise(g, greatest ? "Max" : "Min", {a, b});
}

// The maximum or the minimum; if one is NaN, the other.
Value extremum_of_numbers(GraphBuilder& g, bool greatest, Value a, Value b) {
  const ElementType type = g.result().element_type;
  if (!is_floating_point(type)) return extremum(g, greatest, a, b);
  Value x = exact_operand(g, a, type), y = exact_operand(g, b, type);
  Value both = g.op(greatest ? "Max" : "Min", x, y);
  Value without_y = g.op("Where", g.op("IsNaN", y), x, both);
  return g.op("Where", g.op("IsNaN", x), y, without_y);
}

bool is_nan(Value constant) {
  const std::optional<ir::Weight> number =
      constant.weight() ? tensor::convert_weight(*constant.weight(), ElementType::float64) : std::nullopt;
  return number && number->element_count() == 1 && std::isnan(number->as<double>()[0]);
}

// In torch 2.14, a negative bound of an unsigned type wraps around, and one of -2^bits or less is an error.
// Since 2.15, neither bounds anything.
void check_negative(GraphBuilder& g, const ir::Weight& bound, ElementType type) {
  const double number = tensor::number_of(bound).value_or(0);
  if (tensor::is_unsigned(type) && number < 0 && number > -std::exp2(bits_of(type)))
    g.refuse(
        "versions of torch treat a negative bound of an unsigned type differently; use one of at least 0");
}

Value clamp(GraphBuilder& g, Value self, std::optional<Value> min, std::optional<Value> max) {
  const ElementType type = g.result().element_type;
  // Clip takes numbers, and ignores one that is NaN.
  const auto is_tensor = [type](const std::optional<Value>& bound) {
    return bound && (bound->rank() > 0 || (is_floating_point(type) && !bound->weight()));
  };
  // Which of two zeros is the greater one is not defined; in float32, runtimes choose as PyTorch does.
  const bool is_wide = is_tensor(min) || is_tensor(max);
  const auto bounded = [&](Value x) {
    // Since torch 2.15, a number that the integer type cannot represent bounds nothing; a tensor wraps
    // around.
    for (std::optional<Value>* bound : {&min, &max}) {
      const bool is_number = *bound && is_integral(type) && g.is_number(**bound);
      if (!is_number) continue;
      check_negative(g, *(*bound)->weight(), type);
      if (!tensor::converts_exactly(*(*bound)->weight(), type)) bound->reset();
    }
    const auto operand_of = is_wide ? operand : exact_operand;
    if (min) min = operand_of(g, *min, type);
    if (max) max = operand_of(g, *max, type);
    for (const std::optional<Value>& bound : {min, max}) {
      if (bound && is_nan(*bound)) return filled(g, x.dims(), NAN, type);
    }
    if (!min && !max) return x;
    if (!is_wide) return g.op("Clip", x, min, max);
    if (min) x = g.op("Max", x, *min);
    return max ? g.op("Min", x, *max) : x;
  };
  return is_wide ? in_opmath_type(g, self, bounded) : in_result_type(g, self, bounded);
}

Value choose(GraphBuilder& g, Value condition, Value self, Value other) {
  const ElementType type = g.result().element_type;
  condition = g.cast(condition, ElementType::boolean);
  return g.op("Where", condition, exact_operand(g, self, type), exact_operand(g, other, type));
}

Value isclose(GraphBuilder& g, Value self, Value other, double rtol, double atol, bool equal_nan) {
  const ElementType type = self.element_type();
  Value x = operand(g, self, type), y = operand(g, other, type);
  Value close = g.op("Equal", x, y);
  if (rtol != 0 || atol != 0) {
    if (!is_floating_point(type)) {
      x = g.cast(x, ElementType::float64);
      y = g.cast(y, ElementType::float64);
    }
    Value distance = g.op("Abs", g.op("Sub", x, y));
    Value allowed = g.op("Add", g.scalar_like(y, atol), g.op("Mul", g.op("Abs", y), g.scalar_like(y, rtol)));
    Value within = g.op("LessOrEqual", distance, allowed);
    // An infinite distance is never within the tolerance, even if that is infinite.
    Value finite = g.op("Less", distance, g.scalar_like(y, INFINITY));
    close = g.op("Or", close, g.op("And", within, finite));
  }
  if (equal_nan && is_floating_point(type))
    close = g.op("Or", close, g.op("And", g.op("IsNaN", x), g.op("IsNaN", y)));
  return close;
}

Value heaviside(GraphBuilder& g, Value self, Value values) {
  const ElementType type = g.result().element_type;
  return in_result_type(g, self, [&](Value x) {
    Value zero = g.scalar_like(x, 0);
    Value step = g.cast(g.op("Greater", x, zero), x.element_type());
    return g.op("Where", g.op("Equal", x, zero), exact_operand(g, values, type), step);
  });
}

Value copysign(GraphBuilder& g, Value self, Value other) {
  const ElementType type = g.result().element_type;
  Value size = g.op("Abs", operand(g, self, type));
  // A product keeps the sign of -0; in a Where some runtimes add the two branches and lose it.
  Value factor = g.cast(sign_bit(g, operand(g, other, type)), size.element_type());
  factor = g.op("Sub", g.scalar_like(size, 1), g.op("Mul", factor, g.scalar_like(size, 2)));
  return g.cast(g.op("Mul", size, factor), type);
}

}  // namespace

void register_comparison(SymbolicRegistry& registry) {
  auto on = add(registry);

  auto on_binary = [&](const char* name, auto function) {
    on(fmt::format("aten::{}.Tensor(Tensor self, Tensor other) -> Tensor", name), Since{9}, function);
    on(fmt::format("aten::{}.Scalar(Tensor self, Scalar other) -> Tensor", name), Since{9}, function);
  };
  struct Comparison {
    const char *name, *alias, *op;
  };
  for (const auto& [name, alias, op] : {Comparison{"eq", nullptr, "Equal"},
                                        {"ge", "greater_equal", "GreaterOrEqual"},
                                        {"gt", "greater", "Greater"},
                                        {"le", "less_equal", "LessOrEqual"},
                                        {"lt", "less", "Less"}}) {
    auto function = [op = op](GraphBuilder& g, Value a, Value b) { return compare(g, op, a, b); };
    on_binary(name, function);
    if (alias) on_binary(alias, function);
  }
  for (const char* name : {"ne", "not_equal"}) {
    on_binary(name, [](GraphBuilder& g, Value a, Value b) { return g.op("Not", compare(g, "Equal", a, b)); });
  }

  for (const bool greatest : {true, false}) {
    auto either = [greatest](GraphBuilder& g, Value a, Value b) { return extremum(g, greatest, a, b); };
    const char* short_name = greatest ? "max" : "min";
    on(fmt::format("aten::{}imum(Tensor self, Tensor other) -> Tensor", short_name), Since{9}, either);
    on(fmt::format("aten::{}.other(Tensor self, Tensor other) -> Tensor", short_name), Since{9}, either);
    on(fmt::format("aten::f{}(Tensor self, Tensor other) -> Tensor", short_name), Since{9},
       [greatest](GraphBuilder& g, Value a, Value b) { return extremum_of_numbers(g, greatest, a, b); });
    auto bounded = [greatest](GraphBuilder& g, Value self, Value bound) {
      return greatest ? clamp(g, self, bound, std::nullopt) : clamp(g, self, std::nullopt, bound);
    };
    // A lower bound is a maximum.
    const char* name = greatest ? "min" : "max";
    on(fmt::format("aten::clamp_{0}(Tensor self, Scalar {0}) -> Tensor", name), Since{9}, bounded);
    on(fmt::format("aten::clamp_{0}.Tensor(Tensor self, Tensor {0}) -> Tensor", name), Since{9}, bounded);
  }
  for (const char* name : {"clamp", "clip"}) {
    on(fmt::format("aten::{}(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", name), Since{9},
       clamp);
    on(fmt::format("aten::{}.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", name),
       Since{9}, clamp);
  }

  on("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", Since{9}, choose);
  on("aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", Since{9}, choose);
  on("aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", Since{9}, choose);
  on("aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", Since{9}, choose);
  auto masked_fill = [](GraphBuilder& g, Value self, Value mask, Value value) {
    return choose(g, mask, value, self);
  };
  on("aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", Since{9}, masked_fill);
  on("aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", Since{9}, masked_fill);

  on("aten::isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, "
     "bool equal_nan=False) -> Tensor",
     Since{9}, isclose);
  on("aten::heaviside(Tensor self, Tensor values) -> Tensor", Since{9}, heaviside);
  on("aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor", Since{9}, copysign);
  on("aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor", Since{9}, copysign);
}

}  // namespace opbridge::lowering
