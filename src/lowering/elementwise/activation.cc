#include "lowering/elementwise/activation.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "lowering/add.h"
#include "lowering/formula.h"
#include "lowering/kernel.h"
#include "lowering/reduction/reduce.h"
#include "lowering/softmax.h"

namespace opbridge::lowering {
namespace {

Value clip(GraphBuilder& g, Value self, const Scalar& least, const Scalar& most) {
  return in_result_type(g, self, [&](Value x) {
    x = g.cast(x, integral_promotion(x.element_type()));  // the bounds may lie beyond the type
    Value low = g.scalar_like(x, least), high = g.scalar_like(x, most);
    const auto is_nan = [](const Scalar& bound) {
      return bound.is_static() && std::isnan(bound.to_double());
    };
    // Clip ignores bounds that are NaN.
    Value clipped =
        is_nan(least) || is_nan(most) ? g.op("Min", g.op("Max", x, low), high) : g.op("Clip", x, low, high);
    return g.cast(clipped, g.result().element_type);
  });
}

Value relu(GraphBuilder& g, Value self) {
  return in_result_type(g, self, [&](Value x) {
    return is_floating_point(x.element_type()) ? g.op("Relu", x) : g.op("Max", x, g.scalar_like(x, 0));
  });
}

// x if it is positive, x * slope otherwise.
Value leaky_relu(GraphBuilder& g, Value self, const Formula& slope) {
  return in_opmath_type(g, self, [&](Value value) -> Value {
    if (slope.constant() && value.element_type() != ElementType::float64)
      return g.op("LeakyRelu", value, attr("alpha", *slope.constant()));
    const Formula x(g, value);
    return where(x > 0, x, x * slope);
  });
}

// In evaluation mode, the slope is the mean of its bounds.
Value rrelu(GraphBuilder& g, Value self, const Scalar& lower, const Scalar& upper, bool training) {
  if (training) g.refuse("its slopes are random in training mode; call model.eval() before the export");
  return leaky_relu(g, self, (Formula(g, lower) + Formula(g, upper)) / 2);
}

// `weight` is one slope, or one for each channel; channels are dim 1.
Value prelu(GraphBuilder& g, Value self, Value weight) {
  return in_opmath_type(g, self, [&](Value x) {
    Value slope = operand(g, weight, g.result().element_type);
    if (slope.rank() == 1 && x.rank() == 0) slope = g.squeeze(slope, {0});
    if (slope.rank() == 1 && x.rank() > 2) {
      std::vector<Dim> dims(x.rank() - 1, Dim(1));
      dims[0] = slope.dim(0);
      slope = g.reshape(slope, dims);
    }
    if (x.element_type() != ElementType::float64) return g.op("PRelu", x, slope);
    return g.op("Where", g.op("Greater", x, g.scalar_like(x, 0)), x, g.op("Mul", x, slope));
  });
}

// scale * x if x is positive, scale * alpha * (exp(x * input_scale) - 1) otherwise.
Value elu(GraphBuilder& g, Value self, const Formula& alpha, const Formula& scale,
          const Formula& input_scale) {
  return in_opmath_type(g, self, [&](Value value) -> Value {
    const Formula x(g, value), slope = alpha * scale;
    // ONNX's Elu may compute exp(x) - 1, whose error near 0 a large factor makes visible.
    if (value.element_type() != ElementType::float64 && input_scale.constant() == 1 && slope.constant() &&
        std::abs(*slope.constant()) <= 16)
      return Formula(g, g.op("Elu", value, attr("alpha", *alpha.constant()))) * scale;
    return where(x > 0, x * scale, Formula(g, expm1(g, x * input_scale)) * slope);
  });
}

// x + 3, clamped to [0, 6].
Value relu6_of_sum(GraphBuilder& g, Value x) {
  return g.op("Clip", g.op("Add", x, g.scalar_like(x, 3)), g.scalar_like(x, 0), g.scalar_like(x, 6));
}

Value hardsigmoid(GraphBuilder& g, Value x) {
  if (x.element_type() != ElementType::float64)
    return g.op("HardSigmoid", x, attr("alpha", 1.0 / 6), attr("beta", 0.5));
  return g.op("Div", relu6_of_sum(g, x), g.scalar_like(x, 6));
}

Value hardswish(GraphBuilder& g, Value x) {
  if (x.element_type() == ElementType::float64)
    return g.op("Div", g.op("Mul", x, relu6_of_sum(g, x)), g.scalar_like(x, 6));
  if (g.opset() >= 14) return g.op("HardSwish", x);
  return g.op("Mul", x, hardsigmoid(g, x));
}

}  // namespace

Value softmax_of_shown(GraphBuilder& g, Value x, Value hidden, int64_t axis) {
  Value shown = g.op("Where", hidden, g.scalar_like(x, -INFINITY), x);
  Value of_rows = softmax_node(g, "Softmax", shown, axis);
  Value nothing = g.op("Not", any_along(g, g.op("Not", hidden), std::vector{axis}, true));
  return g.op("Where", nothing, g.scalar_like(x, NAN), of_rows);
}

Value gelu(GraphBuilder& g, Value self, const std::string& approximate) {
  return in_opmath_type(g, self, [&](Value x) {
    if (g.opset() >= 20 && x.element_type() != ElementType::float64)
      return g.op("Gelu", x, attr("approximate", approximate));
    auto constant = [&](double value) { return g.scalar_like(x, value); };
    // The forms that runtimes recognize and fuse.
    if (approximate == "tanh") {
      Value cubed = g.op("Mul", g.op("Pow", x, constant(3)), constant(0.044715));
      Value inner = g.op("Mul", g.op("Add", x, cubed), constant(std::sqrt(2 / std::numbers::pi)));
      Value factor = g.op("Add", g.op("Tanh", inner), constant(1));
      return g.op("Mul", g.op("Mul", x, constant(0.5)), factor);
    }
    Value error = g.op("Erf", g.op("Div", x, constant(std::numbers::sqrt2)));
    if (x.element_type() == ElementType::float64)  // not fused; this order does not overflow
      return g.op("Mul", g.op("Mul", x, constant(0.5)), g.op("Add", error, constant(1)));
    return g.op("Mul", g.op("Mul", x, g.op("Add", error, constant(1))), constant(0.5));
  });
}

namespace {

// log(1 + exp(beta * x)) / beta, or x where beta * x exceeds the threshold.
Value softplus_above(GraphBuilder& g, Value self, const Formula& beta, const Formula& threshold) {
  return in_opmath_type(g, self, [&](Value value) -> Value {
    const Formula x(g, value), scaled = x * beta, soft = Formula(g, softplus(g, scaled)) / beta;
    // For beta * x >= 20 both are equal up to rounding, except in float64.
    if (threshold.constant() >= 20 && value.element_type() != ElementType::float64) return soft;
    return where(scaled > threshold, x, soft);
  });
}

Value mish(GraphBuilder& g, Value x) {
  if (g.opset() >= 18 && x.element_type() != ElementType::float64) return g.op("Mish", x);
  return g.op("Mul", x, g.op("Tanh", softplus(g, x)));
}

using Softmax = Value (*)(GraphBuilder&, Value, int64_t axis);

Value softmax_of_opmath_type(GraphBuilder& g, Value x, int64_t axis) {
  return softmax_node(g, "Softmax", x, axis);
}

Value softmax(GraphBuilder& g, Softmax function, Value self, int64_t dim) {
  // PyTorch accepts integer tensors without elements.
  if (!is_floating_point(g.result().element_type))
    return filled(g, *g.result().dims, 0, g.result().element_type);
  return in_opmath_type(g, self, [&](Value x) {
    if (x.rank() == 0) return g.squeeze(function(g, g.unsqueeze(x, {0}), 0), {0});
    return function(g, x, dim);
  });
}

// Softmax that returns zeros instead of NaN for a row of -inf.
Value safe_softmax(GraphBuilder& g, Value self, int64_t dim, Ignored) {
  const ElementType type = g.result().element_type;
  Value x = operand(g, self, type);
  Value seen = g.op("Not", g.op("Equal", x, g.scalar_like(x, -INFINITY)));
  Value hidden = g.op("Not", any_along(g, seen, std::vector<int64_t>{dim}, true));
  Value soft = operand(g, softmax(g, softmax_of_opmath_type, self, dim), type);
  return g.cast(g.op("Where", hidden, g.scalar_like(x, 0), soft), type);
}

// relu(self + alpha * other).
Value relu_of_sum(GraphBuilder& g, Value self, Value other, const Scalar& alpha) {
  const ElementType type = g.result().element_type;
  if (type != self.element_type() || !(bits_of(type) >= 32))
    g.refuse("the result has another type than self, or fewer than 32 bits; call add and relu");
  Value term = operand(g, other, type);
  if (!alpha.is_static() || alpha.to_double() != 1) term = g.op("Mul", term, g.scalar_like(term, alpha));
  Value sum = g.op("Add", operand(g, self, type), term);
  return g.op("Max", sum, g.scalar_like(sum, 0));
}

Value masked_softmax(GraphBuilder& g, Value self, Value mask, std::optional<int64_t> dim, Ignored) {
  if (mask.dims() != self.dims()) g.refuse("the mask has other sizes than the input; expand it");
  if (self.rank() == 0)
    return g.squeeze(masked_softmax(g, g.unsqueeze(self, {0}), g.unsqueeze(mask, {0}), 0, {}), {0});
  return in_opmath_type(g, self, [&](Value x) {
    return softmax_of_shown(g, x, g.cast(mask, ElementType::boolean), dim.value_or(-1));
  });
}

Value glu(GraphBuilder& g, Value self, int64_t dim) {
  return in_opmath_type(g, self, [&](Value x) {
    const Dim half = floor_div(x.dim(dim), Dim(2));
    const std::vector<Value> parts = g.split(x, dim, std::vector{half, half});
    return g.op("Mul", parts[0], g.op("Sigmoid", parts[1]));
  });
}

void check_dropout(const GraphBuilder& g, double p, bool train) {
  if (train && p != 0) {
    g.refuse(
        "dropout is random in training mode; call model.eval() before the export, or export with "
        "random=True");
  }
}

}  // namespace

void register_activation(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::relu(Tensor self) -> Tensor", Since{9}, relu);
  on("aten::_add_relu.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", Since{12},
     relu_of_sum);
  on("aten::_add_relu.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", Since{12},
     [](GraphBuilder& g, Value self, Scalar other, Scalar alpha) {
       return relu_of_sum(g, self, g.scalar_like(self, other), alpha);
     });
  on("aten::_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor",
     Since{9}, masked_softmax);
  on("aten::relu6(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return clip(g, self, 0, 6); });
  on("aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", Since{9}, clip);

  on("aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar slope) {
       return leaky_relu(g, self, {g, slope});
     });
  on("aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, "
     "Generator? generator=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Scalar lower, Scalar upper, bool training, Ignored) {
       return rrelu(g, self, lower, upper, training);
     });
  // Only training mode writes the noise.
  on("aten::rrelu_with_noise(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
     "upper=0.33333333333333331, "
     "bool training=False, Generator? generator=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Ignored, Scalar lower, Scalar upper, bool training, Ignored) {
       return rrelu(g, self, lower, upper, training);
     });
  // Returns the noise as well.
  on("aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
     "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value self, Value noise, Scalar lower, Scalar upper, bool training, Ignored) {
       return std::array{rrelu(g, self, lower, upper, training), noise};
     });
  on("aten::prelu(Tensor self, Tensor weight) -> Tensor", Since{9}, prelu);

  on("aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar alpha, Scalar scale, Scalar input_scale) {
       return elu(g, self, {g, alpha}, {g, scale}, {g, input_scale});
     });
  on("aten::celu(Tensor self, Scalar alpha=1.) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar alpha) {
       return elu(g, self, {g, alpha}, 1, 1 / Formula(g, alpha));
     });
  on("aten::selu(Tensor self) -> Tensor", Since{9}, [](GraphBuilder& g, Value self) {
    // The constants of Klambauer et al. 2017, arXiv:1706.02515.
    return elu(g, self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
  });

  using Unary = Value (*)(GraphBuilder&, Value);
  const std::pair<const char*, Unary> floating[] = {
      {"hardsigmoid", hardsigmoid},
      {"hardswish", hardswish},
      {"mish", mish},
      {"silu", [](GraphBuilder& g, Value x) { return g.op("Mul", x, g.op("Sigmoid", x)); }},
      {"log_sigmoid", [](GraphBuilder& g, Value x) { return g.op("Neg", softplus(g, g.op("Neg", x))); }},
  };
  for (const auto& [name, compute] : floating) {
    on(fmt::format("aten::{}(Tensor self) -> Tensor", name), Since{9},
       [compute = compute](GraphBuilder& g, Value self) {
         return in_opmath_type(g, self, [&](Value x) { return compute(g, x); });
       });
  }
  on("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", Since{9}, gelu);
  on("aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar beta, Scalar threshold) {
       return softplus_above(g, self, {g, beta}, {g, threshold});
     });
  on("aten::glu(Tensor self, int dim=-1) -> Tensor", Since{9}, glu);

  on("aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar threshold, Scalar value) {
       return in_opmath_type(g, self, [&](Value x) {
         Value below = g.op("LessOrEqual", x, g.scalar_like(x, threshold));
         return g.op("Where", below, g.scalar_like(x, value), x);
       });
     });
  // ONNX's Shrink would turn NaN into 0.
  on("aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar lambd) {
       return in_opmath_type(g, self, [&](Value x) {
         // torch 2.15 rounds the bounds to half types, 2.13 does not.
         const ElementType type = self.element_type(), wide = x.element_type();
         Value low = g.cast(g.scalar((-1 * Formula(g, lambd)).scalar(), type), wide),
               high = g.cast(g.scalar(lambd, type), wide);
         return g.op("Sub", x, g.op("Clip", x, low, high));
       });
     });
  on("aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar lambd) {
       return in_result_type(g, self, [&](Value x) {
         Value small = g.op("LessOrEqual", g.op("Abs", x), g.scalar_like(x, lambd));
         return g.op("Where", small, g.scalar_like(x, 0), x);
       });
     });

  for (const char* line : {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
                           "aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
                           "aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, int64_t dim, Ignored) {
      return softmax(g, softmax_of_opmath_type, self, dim);
    });
  }
  for (const char* line :
       {"aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        "aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        "aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"}) {
    on(line, Since{9},
       [](GraphBuilder& g, Value self, int64_t dim, Ignored) { return softmax(g, log_softmax, self, dim); });
  }
  on("aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", Since{9}, safe_softmax);

  for (const char* name : {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"}) {
    on(fmt::format("aten::{}(Tensor input, float p, bool train) -> Tensor", name), Since{9},
       [](GraphBuilder& g, Value input, double p, bool train) {
         check_dropout(g, p, train);
         return input;
       });
  }
  on("aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", Since{9},
     [](GraphBuilder& g, Value input, double p, std::optional<bool> train) {
       check_dropout(g, p, train.value_or(true));
       const ElementType of_mask = g.result(1).element_type;
       if (element_count(input).is(0) && of_mask != input.element_type())
         g.refuse("PyTorch's kernel returns an empty mask of the input's type, but its shape rule says bool");
       return std::array{input, filled(g, input.dims(), 1, of_mask)};
     });
}

}  // namespace opbridge::lowering
