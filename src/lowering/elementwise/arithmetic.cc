#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/elementwise/special.h"

namespace opbridge::lowering {
namespace {

bool is_one(const Scalar& value) { return value.is_static() && value.to_complex() == 1.0; }

// a + alpha * b, a - alpha * b.
Value add_scaled(GraphBuilder& g, std::string_view op, Value a, Value b, const Scalar& alpha) {
  const ElementType type = g.result().element_type;
  if (type == ElementType::boolean) {
    if (!is_one(alpha)) b = g.op("And", g.cast(b, type), g.scalar(alpha, type));
    return g.op("Or", g.cast(a, type), g.cast(b, type));
  }
  if (is_one(alpha)) return elementwise(g, op, {g.cast(a, type), g.cast(b, type)});
  b = operand(g, b, type);
  return g.cast(g.op(op, operand(g, a, type), g.op("Mul", b, g.scalar_like(b, alpha))), type);
}

Value multiply(GraphBuilder& g, Value a, Value b) {
  const ElementType type = g.result().element_type;
  if (type == ElementType::boolean) return g.op("And", g.cast(a, type), g.cast(b, type));
  return elementwise(g, "Mul", {a, b});
}

// Two operands in the opmath type of the call's result.
struct Pair {
  Value a, b;
};

Pair operands(GraphBuilder& g, Value a, Value b) {
  const ElementType type = g.result().element_type;
  return {operand(g, a, type), operand(g, b, type)};
}

// For add and sub, where PyTorch first rounds Python numbers to float16 or bfloat16; in mul and div it does
// not.
Pair rounded_operands(GraphBuilder& g, Value a, Value b) {
  const ElementType type = g.result().element_type;
  return operands(g, g.cast(a, type), g.cast(b, type));
}

// Whether the result has no elements. Even then, ONNX does not define a division by an integer 0.
bool is_empty(GraphBuilder& g) { return element_count(*g.result().dims).is(0); }

Value empty_result(GraphBuilder& g) { return filled(g, *g.result().dims, 0, g.result().element_type); }

Value remainder(GraphBuilder& g, Value a, Value b) {
  if (is_empty(g)) return empty_result(g);
  const Pair p = rounded_operands(g, a, b);
  return g.cast(floor_modulo(g, p.a, p.b, static_number(g, b)), g.result().element_type);
}

Value floor_divide(GraphBuilder& g, Value a, Value b) {
  if (is_empty(g)) return empty_result(g);
  const ElementType type = g.result().element_type;
  const Pair p = operands(g, g.cast(a, type), b);
  return g.cast(floor_quotient(g, p.a, p.b, static_number(g, b)), type);
}

Value divide(GraphBuilder& g, Value a, Value b, const std::optional<std::string>& rounding) {
  if (!rounding) return elementwise(g, "Div", {a, b});
  if (*rounding == "floor") return floor_divide(g, a, b);
  if (is_empty(g)) return empty_result(g);
  const ElementType type = g.result().element_type;
  const Pair p = operands(g, a, b);
  Value quotient = g.op("Div", p.a, p.b);
  if (!is_floating_point(type)) return g.cast(quotient, type);
  if (g.is_number(b)) return g.cast(truncate(g, quotient), type);
  // For two tensors PyTorch rounds the quotient to float16 or bfloat16 before it truncates.
  return g.cast(truncate(g, g.cast(g.cast(quotient, type), p.a.element_type())), type);
}

// Repeated squaring. The result wraps around, as PyTorch's does; ONNX does not define Pow of integers beyond
// the type.
Value integer_power(GraphBuilder& g, Value base, int64_t exponent) {
  Value result;
  for (;; base = g.op("Mul", base, base)) {
    if (exponent % 2 == 1) result = result ? g.op("Mul", result, base) : base;
    exponent /= 2;
    if (exponent == 0) return result;
  }
}

Value power(GraphBuilder& g, Value base, Value exponent) {
  const ElementType type = g.result().element_type;
  const std::optional<double> known = static_number(g, exponent);
  Value x = operand(g, g.cast(base, type), type);
  if (known && *known == 1) return g.cast(x, type);
  if (known && *known == 0.5) return g.cast(g.op("Sqrt", x), type);
  if (known && *known == -1 && is_floating_point(type)) return g.cast(g.op("Reciprocal", x), type);
  if (known && *known > 1 && *known < 0x1p63 && is_integral(type)) {
    return g.cast(integer_power(g, x, static_cast<int64_t>(*known)), type);
  }
  if (is_integral(type) && !known)
    return g.cast(power_of_integers(g, x, operand(g, exponent, type), *g.result().dims), type);
  if (g.opset() < 12 && is_integral(type))
    g.refuse("powers of integers need opset 12; export with opset_version=12");
  return g.cast(g.op("Pow", x, operand(g, g.cast(exponent, type), type)), type);
}

// self + (value * a) op b. The order matters, because intermediate values may overflow.
Value add_of(GraphBuilder& g, std::string_view op, Value self, Value a, Value b, const Scalar& value) {
  const ElementType type = g.result().element_type;
  Value term = operand(g, a, type);
  if (!is_one(value)) term = g.op("Mul", g.scalar_like(term, value), term);
  return g.cast(g.op("Add", operand(g, self, type), g.op(op, term, operand(g, b, type))), type);
}

Value interpolate(GraphBuilder& g, Value self, Value end, Value weight) {
  const ElementType type = g.result().element_type;
  const Pair p = operands(g, self, end);
  return g.cast(lerp(g, p.a, p.b, operand(g, weight, type), static_number(g, weight)), type);
}

// Registers `function` for the Tensor and the Scalar overload of `name`.
template <class Add, class F>
void on_binary(const Add& on, std::string_view name, int opset, F function) {
  on(fmt::format("aten::{}.Tensor(Tensor self, Tensor other) -> Tensor", name), Since{opset}, function);
  on(fmt::format("aten::{}.Scalar(Tensor self, Scalar other) -> Tensor", name), Since{opset}, function);
}

}  // namespace

void register_arithmetic(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const auto& [name, op] : {std::pair{"add", "Add"}, {"sub", "Sub"}, {"subtract", "Sub"}}) {
    auto function = [op = op](GraphBuilder& g, Value self, Value other, Scalar alpha) {
      return add_scaled(g, op, self, other, alpha);
    };
    on(fmt::format("aten::{}.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", name), Since{9},
       function);
    on(fmt::format("aten::{}.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", name), Since{9},
       function);
  }
  auto reversed = [](GraphBuilder& g, Value self, Value other, Scalar alpha) {
    return add_scaled(g, "Sub", other, self, alpha);
  };
  on("aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", Since{9}, reversed);
  on("aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", Since{9}, reversed);

  on_binary(on, "mul", 9, multiply);
  on_binary(on, "multiply", 9, multiply);
  for (const char* name : {"div", "divide", "true_divide"}) {
    on_binary(on, name, 9, [](GraphBuilder& g, Value a, Value b) { return divide(g, a, b, {}); });
  }
  for (const char* name : {"div", "divide"}) {
    on(fmt::format("aten::{}.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", name),
       Since{9}, divide);
    on(fmt::format("aten::{}.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", name),
       Since{9}, divide);
  }
  on("aten::floor_divide(Tensor self, Tensor other) -> Tensor", Since{9}, floor_divide);
  on("aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", Since{9}, floor_divide);
  on_binary(on, "remainder", 9, remainder);
  on("aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", Since{9}, remainder);
  on_binary(on, "fmod", 9, [](GraphBuilder& g, Value a, Value b) {
    if (is_empty(g)) return empty_result(g);
    const Pair p = rounded_operands(g, a, b);
    return g.cast(g.op("Mod", p.a, p.b, attr("fmod", 1)), g.result().element_type);
  });

  for (const char* name : {"pow", "float_power"}) {
    on(fmt::format("aten::{}.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", name), Since{9}, power);
    on(fmt::format("aten::{}.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", name), Since{9}, power);
    on(fmt::format("aten::{}.Scalar(Scalar self, Tensor exponent) -> Tensor", name), Since{9}, power);
  }

  for (const auto& [name, op] : {std::pair{"addcmul", "Mul"}, {"addcdiv", "Div"}}) {
    on(fmt::format("aten::{}(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
                   name),
       Since{9}, [op = op](GraphBuilder& g, Value self, Value a, Value b, Scalar value) {
         return add_of(g, op, self, a, b, value);
       });
  }
  on("aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", Since{9}, interpolate);
  on("aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", Since{9}, interpolate);
}

}  // namespace opbridge::lowering
