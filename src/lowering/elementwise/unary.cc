// Elementwise functions of one tensor.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "lowering/add.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {
namespace {

// A function of a value that has an opmath type.
using Compute = Value (*)(GraphBuilder& g, Value x);

Value constant(GraphBuilder& g, Value like, double value) { return g.scalar_like(like, value); }

Value scaled(GraphBuilder& g, Value x, double factor) { return g.op("Mul", x, constant(g, x, factor)); }

// A logarithm to another base. float64 makes it exact at powers of the base, which users often round down.
Value logarithm(GraphBuilder& g, Value x, double factor) {
  return g.cast(scaled(g, g.op("Log", g.cast(x, ElementType::float64)), factor), x.element_type());
}

// sin(pi x) / (pi x), and 1 at 0.
Value sinc(GraphBuilder& g, Value x) {
  Value angle = scaled(g, x, std::numbers::pi);
  Value at_zero = g.op("Equal", x, constant(g, x, 0));
  return g.op("Where", at_zero, constant(g, x, 1), g.op("Div", g.op("Sin", angle), angle));
}

// -x log x, 0 for x = 0, and -inf for negative x.
Value entr(GraphBuilder& g, Value x) {
  Value zero = constant(g, x, 0);
  Value positive = g.op("Neg", g.op("Mul", x, g.op("Log", x)));
  Value below = g.op("Where", g.op("Less", x, zero), constant(g, x, -INFINITY), positive);
  return g.op("Where", g.op("Equal", x, zero), zero, below);
}

Value logit(GraphBuilder& g, Value self, std::optional<double> eps) {
  return in_opmath_type(g, self, [&](Value x) {
    if (eps && *eps >= 0) {
      Value low = constant(g, x, *eps), high = constant(g, x, 1 - *eps);
      // If the lower bound exceeds the upper one, PyTorch compares with the lower one first.
      x = *eps > 0.5 ? g.op("Where", g.op("Less", x, low), low, g.op("Min", x, high))
                     : g.op("Clip", x, low, high);
    }
    return g.op("Log", g.op("Div", x, g.op("Sub", constant(g, x, 1), x)));
  });
}

// The angle of a real number: pi if it is negative, otherwise 0.
Value angle(GraphBuilder& g, Value self) {
  return in_opmath_type(g, self, [&](Value x) {
    Value zero = constant(g, x, 0);
    Value result = g.op("Where", g.op("Less", x, zero), constant(g, x, std::numbers::pi), zero);
    return g.op("Where", g.op("IsNaN", x), x, result);
  });
}

// Floor, Ceil, …; integers are returned unchanged.
Value rounded(GraphBuilder& g, Value self, Compute compute) {
  if (!is_floating_point(self.element_type())) return self;
  return in_result_type(g, self, [&](Value x) { return compute(g, x); });
}

Value round(GraphBuilder& g, Value x) { return g.op("Round", x); }

Value round_decimals(GraphBuilder& g, Value self, int64_t decimals) {
  if (decimals == 0) return rounded(g, self, round);
  if (!is_floating_point(self.element_type())) {
    if (decimals > 0) return self;
    g.refuse("rounding integers to tens, hundreds, … is not supported; round a floating-point tensor");
  }
  return in_opmath_type(g, self, [&](Value x) {
    Value power = constant(g, x, std::pow(10.0, std::abs(static_cast<double>(decimals))));
    const bool up = decimals > 0;
    return g.op(up ? "Div" : "Mul", g.op("Round", g.op(up ? "Mul" : "Div", x, power)), power);
  });
}

// The sign of NaN is 0 in PyTorch and unspecified in ONNX.
Value sign(GraphBuilder& g, Value self) {
  if (self.element_type() == ElementType::boolean) return self;
  return in_result_type(g, self, [&](Value x) {
    Value result = g.op("Sign", x);
    if (!is_floating_point(x.element_type())) return result;
    return g.op("Where", g.op("IsNaN", x), constant(g, x, 0), result);
  });
}

// x - x is 0 where x is finite, NaN elsewhere.
Value isfinite(GraphBuilder& g, Value x) { return g.op("Equal", g.op("Sub", x, x), constant(g, x, 0)); }

Value isinf(GraphBuilder& g, Value x) { return g.op("Equal", g.op("Abs", x), constant(g, x, INFINITY)); }

// A predicate of floating-point numbers; for integers it is always `of_integers`.
Value classify(GraphBuilder& g, Value self, bool of_integers, Compute compute) {
  if (!is_floating_point(self.element_type()))
    return filled(g, self.dims(), of_integers, ElementType::boolean);
  return compute(g, exact_operand(g, self, self.element_type()));
}

Value nan_to_num(GraphBuilder& g, Value self, std::optional<double> nan, std::optional<double> posinf,
                 std::optional<double> neginf) {
  const ElementType type = self.element_type();
  if (!is_floating_point(type)) return self;
  return in_result_type(g, self, [&](Value x) {
    const double greatest = greatest_finite(type);
    Value result = g.op("Where", g.op("IsNaN", x), constant(g, x, nan.value_or(0)), x);
    auto replace = [&](double from, double to) {
      result = g.op("Where", g.op("Equal", x, constant(g, x, from)), constant(g, x, to), result);
    };
    replace(INFINITY, posinf.value_or(greatest));
    replace(-INFINITY, neginf.value_or(-greatest));
    return result;
  });
}

}  // namespace

void register_unary(SymbolicRegistry& registry) {
  auto on = add(registry);
  auto on_each = [&](std::initializer_list<const char*> names, int opset, auto function) {
    for (const char* name : names)
      on(fmt::format("aten::{}(Tensor self) -> Tensor", name), Since{opset}, function);
  };

  // Operators that are one ONNX operator. Integers are cast if PyTorch's result is floating point.
  struct Direct {
    std::initializer_list<const char*> names;
    const char* op;
  };
  for (const auto& [names, op] : std::initializer_list<Direct>{
           {{"abs", "absolute"}, "Abs"},
           {{"acos", "arccos"}, "Acos"},
           {{"acosh", "arccosh"}, "Acosh"},
           {{"asin", "arcsin"}, "Asin"},
           {{"asinh", "arcsinh"}, "Asinh"},
           {{"atan", "arctan"}, "Atan"},
           {{"atanh", "arctanh"}, "Atanh"},
           {{"cos"}, "Cos"},
           {{"cosh"}, "Cosh"},
           {{"erf", "special_erf"}, "Erf"},
           {{"exp"}, "Exp"},
           {{"log"}, "Log"},
           {{"neg", "negative"}, "Neg"},
           {{"reciprocal"}, "Reciprocal"},
           {{"sigmoid", "special_expit"}, "Sigmoid"},
           {{"sin"}, "Sin"},
           {{"sinh"}, "Sinh"},
           {{"sqrt"}, "Sqrt"},
           {{"tan"}, "Tan"},
           {{"tanh"}, "Tanh"},
       }) {
    on_each(names, 9, [op = op](GraphBuilder& g, Value self) { return elementwise(g, op, {self}); });
  }
  // Views that negate what they read, such as the imaginary part of a conjugated tensor.
  for (const char* line :
       {"aten::_neg_view(Tensor(a) self) -> Tensor(a)", "aten::_neg_view_copy(Tensor self) -> Tensor"})
    on(line, Since{9}, [](GraphBuilder& g, Value self) { return elementwise(g, "Neg", {self}); });

  struct Composed {
    std::initializer_list<const char*> names;
    Compute compute;
  };
  for (const auto& [names, compute] : std::initializer_list<Composed>{
           {{"deg2rad"}, [](GraphBuilder&g, Value x) { return scaled(g, x, std::numbers::pi / 180); }},
           {{"rad2deg"}, [](GraphBuilder&g, Value x) { return scaled(g, x, 180 / std::numbers::pi); }},
           {{"exp2", "special_exp2"},
            [](GraphBuilder&g, Value x) { return g.op("Pow", constant(g, x, 2), x); }},
           {{"expm1", "special_expm1"}, expm1},
           {{"log1p", "special_log1p"}, log1p},
           {{"log2"}, [](GraphBuilder&g, Value x) { return logarithm(g, x, std::numbers::log2e); }},
           {{"log10"}, [](GraphBuilder&g, Value x) { return logarithm(g, x, std::numbers::log10e); }},
           {{"rsqrt"}, [](GraphBuilder&g, Value x) { return g.op("Reciprocal", g.op("Sqrt", x)); }},
           {{"sinc", "special_sinc"}, sinc},
           {{"special_entr"}, entr},
           {{"square"}, [](GraphBuilder&g, Value x) { return g.op("Mul", x, x); }},
           {{"frac"},
            [](GraphBuilder&g, Value x) { return g.op("Mod", x, constant(g, x, 1), attr("fmod", 1)); }},
       }) {
    on_each(names, 9, [compute = compute](GraphBuilder& g, Value self) {
      return in_opmath_type(g, self, [&](Value x) { return compute(g, x); });
    });
  }

  for (const auto& [names, compute] : std::initializer_list<Composed>{
           {{"ceil"}, [](GraphBuilder&g, Value x) { return g.op("Ceil", x); }},
           {{"floor"}, [](GraphBuilder&g, Value x) { return g.op("Floor", x); }},
           {{"round"}, round},
           {{"trunc", "fix"}, truncate},
       }) {
    on_each(names, 9, [compute = compute](GraphBuilder& g, Value self) { return rounded(g, self, compute); });
  }
  on("aten::round.decimals(Tensor self, *, int decimals) -> Tensor", Since{9}, round_decimals);
  on("aten::special_round(Tensor self, *, int decimals=0) -> Tensor", Since{9}, round_decimals);
  on_each({"sign", "sgn"}, 9, sign);

  struct Predicate {
    const char* name;
    bool of_integers;
    Compute compute;
  };
  for (const auto& [name, of_integers, compute] : std::initializer_list<Predicate>{
           {"isfinite", true, isfinite},
           {"isinf", false, isinf},
           {"isnan", false, [](GraphBuilder&g, Value x) { return g.op("IsNaN", x); }},
           {"isposinf", false,
            [](GraphBuilder&g, Value x) { return g.op("Equal", x, constant(g, x, INFINITY)); }},
           {"isneginf", false,
            [](GraphBuilder&g, Value x) { return g.op("Equal", x, constant(g, x, -INFINITY)); }},
       }) {
    on_each({name}, 9, [of_integers = of_integers, compute = compute](GraphBuilder& g, Value self) {
      return classify(g, self, of_integers, compute);
    });
  }
  on_each({"isreal"}, 9,
          [](GraphBuilder& g, Value self) { return filled(g, self.dims(), true, ElementType::boolean); });
  on_each({"signbit"}, 9,
          [](GraphBuilder& g, Value self) { return sign_bit(g, operand(g, self, self.element_type())); });

  on("aten::angle(Tensor self) -> Tensor", Since{9}, angle);
  on("aten::logit(Tensor self, float? eps=None) -> Tensor", Since{9}, logit);
  on("aten::special_logit(Tensor self, float? eps=None) -> Tensor", Since{9}, logit);
  on("aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
     Since{9}, nan_to_num);
}

}  // namespace opbridge::lowering
