#include "lowering/nn/normalization.h"

#include <limits>
#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"
#include "tensor/constants.h"

namespace opbridge::lowering {
namespace {

bool is_half(ElementType type) { return type == ElementType::float16 || type == ElementType::bfloat16; }

// The input normalized by its own mean and deviation, channel by channel, in float32 or wider. Statistics are
// 1-d.
struct NormalizedByBatch {
  Value result, mean, variance, deviation;
};

// If a variance and `eps` are 0, batch normalization scales the channel by 0; layer normalization returns
// NaN.
Value deviation_of_channel(GraphBuilder& g, Value variance, double eps) {
  Value deviation = g.op("Sqrt", g.op("Add", variance, g.scalar_like(variance, eps)));
  if (eps != 0) return deviation;
  Value infinity = g.scalar_like(variance, std::numeric_limits<double>::infinity());
  return g.op("Where", g.op("Equal", variance, g.scalar_like(variance, 0)), infinity, deviation);
}

NormalizedByBatch normalized_by_batch(GraphBuilder& g, Value input, std::optional<Value> weight,
                                      std::optional<Value> bias, double eps) {
  const ElementType type = input.element_type();
  const ElementType wide = type == ElementType::float64 ? type : ElementType::float32;
  Value x = g.cast(input, wide);
  const std::vector<int64_t> others = axes_except(1, x.rank());
  Value mean = g.reduce("ReduceMean", x, others, true);
  Value centered = g.op("Sub", x, mean);
  Value variance = g.reduce("ReduceMean", g.op("Mul", centered, centered), others, true);
  Value deviation = deviation_of_channel(g, variance, eps);
  const auto per_channel = [&](Value value) {
    std::vector<int64_t> behind(x.rank() - 2);
    std::iota(behind.begin(), behind.end(), 1);
    return g.unsqueeze(g.cast(value, wide), behind);
  };
  Value result = g.op("Div", centered, deviation);
  if (weight) result = g.op("Mul", result, per_channel(*weight));
  if (bias) result = g.op("Add", result, per_channel(*bias));
  return {g.cast(result, type), g.squeeze(mean, others), g.squeeze(variance, others),
          g.squeeze(deviation, others)};
}

// In training mode without running statistics, uses those of the batch. If there are running statistics,
// which training changes, the program has _native_batch_norm_legit_functional instead.
Value batch_norm(GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias,
                 std::optional<Value> mean, std::optional<Value> variance, bool training, double, double eps,
                 Ignored) {
  if (element_count(input).is(0)) return input;
  if (training && !mean && !variance) return normalized_by_batch(g, input, weight, bias, eps).result;
  if (training || !mean || !variance) {
    g.refuse("batch statistics are computed in training mode; call model.eval() before the export");
  }
  const ElementType type = opmath_type(input.element_type());
  const std::vector<Dim> channels{input.dim(1)};
  // PyTorch accepts any shape with as many elements as there are channels.
  const auto per_channel = [&](Value value) {
    return g.cast(value.rank() == 1 ? value : g.reshape(value, channels), type);
  };
  // The attribute is float32.
  const double remainder = type == ElementType::float64 ? eps - static_cast<float>(eps) : 0;
  Value spread = per_channel(*variance);
  if (remainder != 0) spread = g.op("Add", spread, g.scalar_like(spread, remainder));
  Value result = g.op("BatchNormalization", g.cast(input, type),
                      per_channel(weight ? *weight : filled(g, channels, 1, type)),
                      per_channel(bias ? *bias : filled(g, channels, 0, type)), per_channel(*mean), spread,
                      attr("epsilon", eps));
  return g.cast(result, input.element_type());
}

// The result, mean and inverse deviation of the batch.
std::vector<Value> native_batch_norm(GraphBuilder& g, Value input, std::optional<Value> weight,
                                     std::optional<Value> bias, double eps) {
  const NormalizedByBatch by_batch = normalized_by_batch(g, input, weight, bias, eps);
  Value inverse = g.op("Reciprocal", by_batch.deviation);
  return {by_batch.result, g.cast(by_batch.mean, g.result(1).element_type),
          g.cast(inverse, g.result(2).element_type)};
}

// native_batch_norm(), and the running statistics after an update with `momentum`.
std::vector<Value> batch_norm_in_training(GraphBuilder& g, Value input, std::optional<Value> weight,
                                          std::optional<Value> bias, Value mean, Value variance,
                                          bool training, double momentum, double eps) {
  if (!training) g.refuse("running statistics are not updated in evaluation mode");
  const NormalizedByBatch by_batch = normalized_by_batch(g, input, weight, bias, eps);
  const ElementType wide = by_batch.mean.element_type();
  Dim count(1);
  for (int64_t axis = 0; axis < input.rank(); ++axis) {
    if (axis != 1) count = count * input.dim(axis);
  }
  const auto moved = [&](Value running, Value batch) {
    Value kept = g.op("Mul", g.cast(running, wide), g.scalar(1 - momentum, wide));
    return g.cast(g.op("Add", kept, g.op("Mul", batch, g.scalar(momentum, wide))), running.element_type());
  };
  // The running variance is the unbiased estimate (Bessel's correction).
  Value n = g.scalar(count, wide);
  Value of_sample = g.op("Mul", by_batch.variance, g.op("Div", n, g.op("Sub", n, g.scalar(1, wide))));
  const auto as_result = [&](size_t i, Value value) { return g.cast(value, g.result(i).element_type); };
  return {by_batch.result, as_result(1, by_batch.mean), as_result(2, g.op("Reciprocal", by_batch.deviation)),
          moved(mean, by_batch.mean), moved(variance, of_sample)};
}

// The input minus its mean over the last `axes` dims, and its variance over them: NaN if these have no
// elements.
std::array<Value, 2> centered_and_variance(GraphBuilder& g, Value input, int64_t axes) {
  std::vector<int64_t> reduced;
  for (int64_t axis = -axes; axis < 0; ++axis) reduced.push_back(axis);
  Value centered = g.op("Sub", input, g.reduce("ReduceMean", input, reduced, true));
  Value squares = g.op("Mul", centered, centered);
  Value variance = may_be_empty(last_dims(input.dims(), axes))
                       ? mean_of(g, squares, reduced, true)
                       : g.reduce("ReduceMean", squares, reduced, true);
  return {centered, variance};
}

// Normalizes over the last `axes` dims with elementary operators (Ba et al. 2016, arXiv:1607.06450).
Value layer_norm_by_parts(GraphBuilder& g, Value input, int64_t axes, double eps) {
  const auto [centered, variance] = centered_and_variance(g, input, axes);
  return g.op("Div", centered, g.op("Sqrt", g.op("Add", variance, g.scalar_like(input, eps))));
}

}  // namespace

Value layer_norm(GraphBuilder& g, Value input, std::vector<Dim> normalized_shape, std::optional<Value> weight,
                 std::optional<Value> bias, double eps, Ignored) {
  if (element_count(input).is(0)) return input;
  const auto axes = static_cast<int64_t>(normalized_shape.size());
  const ElementType type = input.element_type();
  const bool half = is_half(type);
  // LayerNormalization computes in float32, even for float64, and rejects axes without elements.
  if (g.opset() >= 17 && type != ElementType::float64 && !may_be_empty(normalized_shape)) {
    // Under autocast the input may be of a half type and the weights float32; PyTorch does not round the
    // weights.
    const auto is_wider = [&](const std::optional<Value>& value) {
      return half && value && value->element_type() == ElementType::float32;
    };
    const ElementType computed = is_wider(weight) || is_wider(bias) ? ElementType::float32 : type;
    Value scale = weight.value_or(filled(g, normalized_shape, 1, computed));
    if (bias) bias = g.cast(*bias, computed);
    return g.cast(g.op("LayerNormalization", g.cast(input, computed), g.cast(scale, computed), bias,
                       attr("axis", -axes), attr("epsilon", eps)),
                  type);
  }
  Value wide = half ? g.cast(input, ElementType::float32) : input;
  Value result = layer_norm_by_parts(g, wide, axes, eps);
  if (weight) result = g.op("Mul", result, g.cast(*weight, wide.element_type()));
  if (bias) result = g.op("Add", result, g.cast(*bias, wide.element_type()));
  return g.cast(result, type);
}

namespace {

// `values`, one for each channel, shaped to broadcast along dim 1 of `like`.
Value per_channel(GraphBuilder& g, Value values, Value like) {
  if (like.rank() == 2) return values;
  std::vector<Dim> dims(like.rank() - 1, Dim(1));
  dims[0] = like.dim(1);
  return g.reshape(values, dims);
}

Value scaled_and_shifted(GraphBuilder& g, Value x, std::optional<Value> weight, std::optional<Value> bias) {
  if (weight) x = g.op("Mul", x, per_channel(g, g.cast(*weight, x.element_type()), x));
  if (bias) x = g.op("Add", x, per_channel(g, g.cast(*bias, x.element_type()), x));
  return x;
}

// Whether InstanceNormalization does not apply: its epsilon is a float32, and ONNX does not define the
// moments of no elements. `dims` are those that PyTorch accepts without elements.
bool needs_parts(Value x, std::span<const Dim> dims) {
  return x.element_type() == ElementType::float64 || may_be_empty(dims);
}

// The mean and the inverse standard deviation over the last `axes` dims of `x`.
std::array<Value, 2> moments(GraphBuilder& g, Value x, int64_t axes, double eps) {
  std::vector<int64_t> reduced(axes);
  std::iota(reduced.begin(), reduced.end(), -axes);
  Value variance = centered_and_variance(g, x, axes)[1];
  return {g.reduce("ReduceMean", x, reduced, true),
          g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, g.scalar_like(x, eps))))};
}

// The group norm of `x` in PyTorch's order of operations; `rows` is `x` as (N, groups, rest). With infinite
// weights the result is NaN where another order would give infinity.
Value group_norm_by_scales(GraphBuilder& g, Value x, Value rows, Value weight, std::optional<Value> bias,
                           double eps) {
  const auto [mean, inverse] = moments(g, rows, 1, eps);
  const Dim groups = rows.dim(1), channels = x.dim(1);
  const std::vector<Dim> by_group{groups, floor_div(channels, groups)};
  const auto of_channels = [&](Value values) {
    return g.reshape(g.cast(values, x.element_type()), by_group);
  };
  Value scale = g.op("Mul", inverse, of_channels(weight));
  Value shift = g.op("Neg", g.op("Mul", scale, mean));
  if (bias) shift = g.op("Add", shift, of_channels(*bias));
  std::vector<Dim> dims(x.rank(), Dim(1));
  dims[0] = x.dim(0), dims[1] = channels;
  return g.op("Add", g.op("Mul", x, g.reshape(scale, dims)), g.reshape(shift, dims));
}

bool is_finite(const ir::Weight& weight) {
  const std::optional<ir::Weight> wide = tensor::convert_weight(weight, ElementType::float64);
  return wide && std::ranges::all_of(wide->as<double>(), [](double number) { return std::isfinite(number); });
}

Value group_norm(GraphBuilder& g, Value input, int64_t groups, std::optional<Value> weight,
                 std::optional<Value> bias, double eps) {
  if (!is_floating_point(input.element_type()))
    g.refuse("PyTorch normalizes only floating-point numbers; convert the input");
  const ElementType type = input.element_type();
  const bool half = is_half(type);
  Value x = half ? g.cast(input, ElementType::float32) : input;
  const Dim rest = element_count(last_dims(x.dims(), x.rank() - 1));
  Value rows = g.reshape(x, {x.dim(0), Dim(groups), floor_div(rest, Dim(groups))});
  if (weight && !(weight->weight() && is_finite(*weight->weight())))
    return g.cast(group_norm_by_scales(g, x, rows, *weight, bias, eps), type);
  if (needs_parts(x, first_dims(x.dims(), 1))) {
    rows = layer_norm_by_parts(g, rows, 1, eps);
  } else {
    const std::vector<Dim> of_groups{Dim(groups)};
    rows = g.op("InstanceNormalization", rows, filled(g, of_groups, 1, x.element_type()),
                filled(g, of_groups, 0, x.element_type()), attr("epsilon", eps));
  }
  return g.cast(scaled_and_shifted(g, g.reshape(rows, x.dims()), weight, bias), type);
}

Value instance_norm(GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias,
                    std::optional<Value> mean, std::optional<Value> variance, bool use_input_stats,
                    double momentum, double eps, Ignored) {
  if (!use_input_stats) return batch_norm(g, input, weight, bias, mean, variance, false, momentum, eps, {});
  if (element_count(input).is(0)) return input;
  if (input.rank() == 2) return scaled_and_shifted(g, g.op("Sub", input, input), weight, bias);
  const ElementType type = input.element_type();
  const bool half = is_half(type);
  Value x = half ? g.cast(input, ElementType::float32) : input;
  if (eps == 0 || needs_parts(x, x.dims())) {
    const auto [centered, variance] = centered_and_variance(g, x, x.rank() - 2);
    Value normalized = g.op("Div", centered, deviation_of_channel(g, variance, eps));
    return g.cast(scaled_and_shifted(g, normalized, weight, bias), type);
  }
  const std::vector<Dim> channels{x.dim(1)};
  auto values = [&](std::optional<Value> given, double otherwise) {
    return given ? g.cast(g.reshape(*given, channels), x.element_type())
                 : filled(g, channels, otherwise, x.element_type());
  };
  Value result = g.op("InstanceNormalization", x, values(weight, 1), values(bias, 0), attr("epsilon", eps));
  return g.cast(result, type);
}

// The results of the native operators: `normalized` and the moments of `rows`.
std::vector<Value> with_moments(GraphBuilder& g, Value normalized, Value rows, int64_t axes, double eps) {
  const auto found = moments(g, operand(g, rows, rows.element_type()), axes, eps);
  std::vector<Value> results{normalized};
  for (size_t i = 0; i < 2; ++i)
    results.push_back(g.cast(g.reshape(found[i], *g.result(i + 1).dims), g.result(i + 1).element_type));
  return results;
}

double epsilon_of(ElementType type) {
  return type == ElementType::float64 ? std::numeric_limits<double>::epsilon()
                                      : std::numeric_limits<float>::epsilon();
}

// RMS normalization (Zhang and Sennrich 2019, arXiv:1910.07467), in the form that runtimes fuse.
Value rms_norm(GraphBuilder& g, Value input, std::vector<Dim> normalized_shape, std::optional<Value> weight,
               std::optional<double> eps) {
  if (element_count(input).is(0)) return g.cast(input, g.result().element_type);
  const ElementType type = input.element_type();
  const bool half = is_half(type);
  Value x = half ? g.cast(input, ElementType::float32) : input;
  std::vector<int64_t> axes(normalized_shape.size());
  std::iota(axes.begin(), axes.end(), -static_cast<int64_t>(axes.size()));
  Value mean = g.reduce("ReduceMean", g.op("Pow", x, g.scalar_like(x, 2)), axes, true);
  Value root = g.op("Sqrt", g.op("Add", mean, g.scalar_like(x, eps.value_or(epsilon_of(x.element_type())))));
  Value result = g.op("Div", x, root);
  if (!weight) return g.cast(result, type);
  // PyTorch rounds before it multiplies by the weight, unless the weight is wider.
  const bool is_wider = half && weight->element_type() == ElementType::float32;
  if (!is_wider) result = g.cast(g.cast(result, type), opmath_type(type));
  return g.cast(g.op("Mul", result, g.cast(*weight, result.element_type())), g.result().element_type);
}

// The second result of the native operator.
Value inverse_root_mean_square(GraphBuilder& g, Value input, int64_t axes, std::optional<double> eps) {
  std::vector<int64_t> reduced(axes);
  std::iota(reduced.begin(), reduced.end(), -axes);
  Value x = g.cast(input, opmath_type(input.element_type()));
  Value mean = mean_of(g, g.op("Mul", x, x), reduced, true);
  Value sum = g.op("Add", mean, g.scalar_like(x, eps.value_or(epsilon_of(x.element_type()))));
  return g.cast(g.op("Reciprocal", g.op("Sqrt", sum)), g.result(1).element_type);
}

// Weight normalization (Salimans and Kingma 2016, arXiv:1602.07868): scales `direction` to the length `size`,
// a norm over all dims except `dim`. If `dim` is -1, the norm is over all dims.
Value weight_norm(GraphBuilder& g, Value direction, Value size, int64_t dim) {
  if (dim < -1) dim = wrap_axis(dim, direction.rank());
  for (int64_t axis = 0; axis < direction.rank() && size.rank() == direction.rank(); ++axis) {
    if (axis != dim && !size.dim(axis).is(1)) g.refuse("g must have size 1 in all dims except `dim`");
  }
  return in_opmath_type(g, direction, [&](Value x) {
    const std::vector<int64_t> axes = axes_except(dim, x.rank());
    Value length = axes.empty() ? g.op("Abs", x) : g.reduce("ReduceL2", x, axes, true);
    return g.op("Mul", x, g.op("Div", operand(g, size, g.result().element_type), length));
  });
}

}  // namespace

void register_normalization(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
     "running_var, bool training, "
     "float momentum, float eps, bool cudnn_enabled) -> Tensor",
     Since{9}, batch_norm);

  // In evaluation mode the batch statistics (the second and third result) are empty.
  on("aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, "
     "Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias, Value mean,
        Value variance, double momentum, double eps) {
       Value none = filled(g, std::vector{Dim(0)}, 0, g.result(1).element_type);
       return std::array{batch_norm(g, input, weight, bias, mean, variance, false, momentum, eps, {}), none,
                         none};
     });
  const auto native = [](GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias,
                         std::optional<Value> mean, std::optional<Value> variance, bool training,
                         double momentum, double eps) {
    if (training && !mean && !variance) return native_batch_norm(g, input, weight, bias, eps);
    Value none = filled(g, std::vector{Dim(0)}, 0, g.result(1).element_type);
    Value result = batch_norm(g, input, weight, bias, mean, variance, training, momentum, eps, {});
    return std::vector{result, none, none};
  };
  // The fourth result is data that cuDNN reserves for the gradient.
  on("aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
     "Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
     Since{9},
     [native](GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias,
              std::optional<Value> mean, std::optional<Value> variance, double momentum, double eps) {
       std::vector<Value> results = native(g, input, weight, bias, mean, variance, false, momentum, eps);
       results.push_back(filled(g, std::vector{Dim(0)}, 0, ElementType::uint8));
       return results;
     });
  on("aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
     "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     Since{9}, native);
  on("aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, "
     "Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [native](GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias,
              Value mean, Value variance, bool training, double momentum, double eps) {
       return native(g, input, weight, bias, mean, variance, training, momentum, eps);
     });
  on("aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, "
     "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias, Ignored,
        Ignored, double eps) { return native_batch_norm(g, input, weight, bias, eps); });
  on("aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor "
     "running_mean, "
     "Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, "
     "Tensor running_mean_out, Tensor running_var_out)",
     Since{9}, batch_norm_in_training);
  // The fourth result is data that cuDNN reserves for the gradient.
  on("aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor "
     "running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, "
     "Tensor running_mean_out, Tensor running_var_out)",
     Since{9},
     [](GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias, Value mean,
        Value variance, double momentum, double eps) {
       std::vector<Value> results =
           batch_norm_in_training(g, input, weight, bias, mean, variance, true, momentum, eps);
       results.insert(results.begin() + 3, filled(g, std::vector{Dim(0)}, 0, ElementType::uint8));
       return results;
     });

  on("aten::batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) "
     "-> (Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, std::optional<Value> mean, std::optional<Value> variance, Ignored) {
       if (mean || variance)
         g.refuse("it writes the running statistics, which its schema does not say; pass None for both");
       const NormalizedByBatch found = normalized_by_batch(g, input, std::nullopt, std::nullopt, 1);
       return std::array{g.cast(found.mean, g.result(0).element_type),
                         g.cast(found.variance, g.result(1).element_type)};
     });
  on("aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
     "float eps=1e-05, "
     "bool cudnn_enable=True) -> Tensor",
     Since{9}, layer_norm);

  on("aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
     "float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value input, int64_t groups, std::optional<Value> weight, std::optional<Value> bias,
        double eps, Ignored) { return group_norm(g, input, groups, weight, bias, eps); });
  on("aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, "
     "int group, float eps) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias, Dim batch,
        Dim channels, Dim pixels, int64_t groups, double eps) {
       Value rows = g.reshape(input, {batch, Dim(groups), floor_div(channels, Dim(groups)) * pixels});
       return with_moments(g, group_norm(g, input, groups, weight, bias, eps), rows, 1, eps);
     });
  on("aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, "
     "float eps) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, std::vector<Dim> shape, std::optional<Value> weight,
        std::optional<Value> bias, double eps) {
       return with_moments(g, layer_norm(g, input, shape, weight, bias, eps, {}), input,
                           static_cast<int64_t>(shape.size()), eps);
     });
  on("aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
     "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
     Since{9}, instance_norm);
  on("aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
     "Tensor",
     Since{9}, rms_norm);
  on("aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> "
     "(Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, std::vector<int64_t> shape, std::optional<Value> weight,
        std::optional<double> eps) {
       const std::vector<Dim> dims(shape.begin(), shape.end());
       return std::array{rms_norm(g, input, dims, weight, eps),
                         inverse_root_mean_square(g, input, static_cast<int64_t>(shape.size()), eps)};
     });
  on("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", Since{9}, weight_norm);
}

}  // namespace opbridge::lowering
