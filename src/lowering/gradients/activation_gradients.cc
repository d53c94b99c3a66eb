// The gradients of activation functions, in the order of operations of PyTorch's kernels.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"

namespace opbridge::lowering {
namespace {

Formula gelu_slope(const Formula& x, const std::string& approximate) {
  if (approximate != "tanh") {
    Formula cdf = 0.5 * (1 + erf(x * std::sqrt(0.5)));
    return cdf + x * (std::numbers::inv_sqrtpi * std::sqrt(0.5) * exp(x * x * -0.5));
  }
  const double beta = std::sqrt(2 / std::numbers::pi), kappa = 0.044715;
  Formula square = x * x;
  Formula bent = tanh(beta * (x + kappa * (square * x)));
  return 0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * (beta * (1 + 3 * kappa * square));
}

// Both are 0 where |x| is at most lambd. torch rounds the bounds to the type of `self`.
Value shrink_gradient(GraphBuilder& g, Value grad, Value self, const Scalar& lambd) {
  const ElementType type = self.element_type();
  return in_formula(
      g,
      [&](Formula dy, Formula x) {
        const auto bound = [&](const Formula& value) {
          return Formula(g, g.cast(g.scalar(value.scalar(), type), Value(x).element_type()));
        };
        const Formula size(g, lambd);
        return where(x >= bound(-1 * size) && x <= bound(size), 0, dy);
      },
      grad, self);
}

Formula elu_gradient(const Formula& dy, const Formula& x, const Formula& alpha, const Formula& scale,
                     const Formula& input_scale, bool is_result) {
  const Formula below = alpha * scale;
  Formula slope = is_result ? input_scale * (x + below) : input_scale * below * exp(x * input_scale);
  return where(x <= 0, dy * slope, dy * scale);
}

Formula logit_gradient(const Formula& dy, const Formula& x, std::optional<double> eps) {
  const double least = eps.value_or(0), most = 1 - least;
  Formula beyond = eps ? 0 : std::numeric_limits<double>::quiet_NaN();
  return where(x < least || x > most, beyond, dy / (x * (1 - x)));
}

// The halves of `x` along `dim`.
std::array<Formula, 2> halves(GraphBuilder& g, const Formula& x, int64_t dim) {
  const Dim half = floor_div(Value(x).dim(dim), Dim(2));
  const std::vector<Value> parts = g.split(x, dim, std::vector{half, half});
  return {Formula(g, parts[0]), Formula(g, parts[1])};
}

Formula joined(GraphBuilder& g, const Formula& a, const Formula& b, int64_t dim) {
  return {g, g.concat({a, b}, wrap_axis(dim, Value(a).rank()))};
}

}  // namespace

void register_activation_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);

  // The name, the saved tensor, and the gradient as a function of the result's gradient and that tensor.
  using Binary = Formula (*)(const Formula&, const Formula&);
  const std::tuple<const char*, const char*, Binary> elementwise[] = {
      {"tanh", "output", [](const Formula& dy, const Formula& y) { return dy * (1 - y * y); }},
      {"sigmoid", "output", [](const Formula& dy, const Formula& y) { return dy * (1 - y) * y; }},
      {"hardsigmoid", "self",
       [](const Formula& dy, const Formula& x) { return where(x > -3 && x < 3, dy * (1.0 / 6), 0); }},
      {"hardswish", "self",
       [](const Formula& dy, const Formula& x) {
         return where(x <= -3, 0, where(x < 3, dy * (x / 3 + 0.5), dy));
       }},
      {"silu", "self",
       [](const Formula& dy, const Formula& x) {
         Formula s = sigmoid(x);
         return dy * s * (1 + x * (1 - s));
       }},
  };
  for (const auto& [name, argument, compute] : elementwise) {
    on(fmt::format("aten::{}_backward(Tensor grad_output, Tensor {}) -> Tensor", name, argument), Since{9},
       [compute = compute](GraphBuilder& g, Value grad, Value value) {
         return in_formula(g, compute, grad, value);
       });
  }
  on("aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value self) {
       return in_formula(
           g,
           [&](Formula dy, Formula x) {
             Formula t = tanh(Formula(g, softplus(g, x)));
             return dy * (t + x * sigmoid(x) * (1 - t * t));
           },
           grad, self);
     });
  on("aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value self, std::string approximate) {
       return in_formula(
           g, [&](Formula dy, Formula x) { return dy * gelu_slope(x, approximate); }, grad, self);
     });
  on("aten::infinitely_differentiable_gelu_backward(Tensor grad, Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value self) {
       return in_formula(
           g, [&](Formula dy, Formula x) { return dy * gelu_slope(x, "none"); }, grad, self);
     });
  for (const char* scales : {"tensor", "channel"}) {
    on(fmt::format("aten::fake_quantize_per_{}_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor",
                   scales),
       Since{9}, [](GraphBuilder& g, Value grad, Value mask) {
         return in_formula(
             g, [&](Formula dy, Formula kept) { return dy * kept; }, grad, mask);
       });
  }
  on("aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Scalar beta, Scalar threshold) {
       return in_formula(
           g,
           [&](Formula dy, Formula x) {
             Formula scaled = x * Formula(g, beta), z = exp(scaled);
             return where(scaled > Formula(g, threshold), dy, dy * z / (z + 1));
           },
           grad, self);
     });
  on("aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", Since{9},
     [](GraphBuilder& g, Value self) {
       Formula x = operand_of_result(g, self);
       Formula buffer = exp(-abs(x));
       Value output = g.op("Neg", softplus(g, -x));
       return std::array{g.cast(output, self.element_type()), g.cast(buffer, self.element_type())};
     });
  // `buffer` is exp(-|x|), or empty.
  on("aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value self, Value buffer) {
       return in_formula(
           g,
           [&](Formula dy, Formula x) {
             Formula z = element_count(buffer.dims()).is(0) ? exp(-abs(x)) : operand_of_result(g, buffer);
             Formula part = z / (1 + z);
             return dy * where(x < 0, 1 - part, part);
           },
           grad, self);
     });
  on("aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value self, Scalar threshold) {
       return in_formula(
           g, [&](Formula dy, Formula x) { return where(x <= Formula(g, threshold), 0, dy); }, grad, self);
     });
  on("aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Scalar least, Scalar most) {
       return in_formula(
           g,
           [&](Formula dy, Formula x) {
             return where(x <= Formula(g, least) || x >= Formula(g, most), 0, dy);
           },
           grad, self);
     });
  on("aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, "
     "bool self_is_result) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Scalar slope, Ignored) {
       return in_formula(
           g, [&](Formula dy, Formula x) { return where(x > 0, dy, dy * Formula(g, slope)); }, grad, self);
     });
  on("aten::rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, "
     "Scalar upper, bool training, bool self_is_result) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value grad, Value self, Value noise, Scalar lower, Scalar upper, bool training,
        Ignored) {
       const bool by_noise = training && upper.to_double() - lower.to_double() > 1e-6;
       const Formula mean = (Formula(g, lower) + Formula(g, upper)) / 2;
       return in_formula(
           g,
           [&](Formula dy, Formula x, Formula slopes) {
             return by_noise ? dy * slopes : where(x > 0, dy, dy * mean);
           },
           grad, self, noise);
     });
  on("aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, "
     "bool is_result, Tensor self_or_result) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value grad, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result,
        Value value) {
       return in_formula(
           g,
           [&](Formula dy, Formula x) {
             return elu_gradient(dy, x, {g, alpha}, {g, scale}, {g, input_scale}, is_result);
           },
           grad, value);
     });
  on("aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor", Since{9},
     shrink_gradient);
  on("aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor", Since{9},
     shrink_gradient);
  on("aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value self, std::optional<double> eps) {
       return in_formula(
           g, [&](Formula dy, Formula x) { return logit_gradient(dy, x, eps); }, grad, self);
     });

  // `weight` has the shape of `self`, or broadcasts to it.
  on("aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value weight) {
       return in_formula(
           g, [&](Formula x, Formula w) { return where(x > 0, x, w * x); }, self, weight);
     });
  on("aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Value weight) {
       Formula dy = operand_of_result(g, grad), x = operand_of_result(g, self),
               w = operand_of_result(g, weight);
       return std::array{g.cast(where(x > 0, dy, w * dy), g.result(0).element_type),
                         g.cast(where(x > 0, 0, x * dy), g.result(1).element_type)};
     });

  on("aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value self, int64_t dim) {
       return in_formula(
           g,
           [&](Formula dy, Formula x) {
             const auto [a, b] = halves(g, x, dim);
             Formula s = sigmoid(b);
             return joined(g, s * dy, (1 - s) * s * dy * a, dim);
           },
           grad, self);
     });
  on("aten::glu_jvp(Tensor glu, Tensor x, Tensor dx, int dim) -> Tensor", Since{9},
     [](GraphBuilder& g, Value glu, Value x, Value dx, int64_t dim) {
       return in_formula(
           g,
           [&](Formula y, Formula x, Formula dx) {
             const auto [da, db] = halves(g, dx, dim);
             Formula s = sigmoid(halves(g, x, dim)[1]);
             return s * da + y * (1 - s) * db;
           },
           glu, x, dx);
     });
  on("aten::glu_backward_jvp(Tensor grad_x, Tensor grad_glu, Tensor x, Tensor dgrad_glu, Tensor dx, "
     "int dim) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad_x, Ignored, Value x, Value dgrad_glu, Value dx, int64_t dim) {
       return in_formula(
           g,
           [&](Formula grad_x, Formula x, Formula ddy, Formula dx) {
             const auto [a, b] = halves(g, x, dim);
             const auto [da, db] = halves(g, dx, dim);
             Formula s = sigmoid(b), grad_a = halves(g, grad_x, dim)[0];
             Formula slope = (1 - s) * db;
             Formula dgrad_a = s * ddy + grad_a * slope;
             return joined(g, dgrad_a, (1 - s) * (a * dgrad_a + da * grad_a) - s * slope * a * grad_a, dim);
           },
           grad_x, x, dgrad_glu, dx);
     });
}

}  // namespace opbridge::lowering
