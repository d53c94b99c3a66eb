#include "lowering/add.h"

namespace opbridge::lowering {
namespace {

// A constant vector for a scale or shift that the module does not have.
Value filled(GraphBuilder& g, std::span<const Dim> dims, double value, ElementType type) {
  return g.expand(g.scalar(value, type), dims);
}

Value batch_norm(GraphBuilder& g, Value input, std::optional<Value> weight, std::optional<Value> bias,
                 std::optional<Value> mean, std::optional<Value> variance, bool training, double, double eps,
                 Ignored) {
  if (training || !mean || !variance) {
    g.refuse("batch statistics are computed in training mode; call model.eval() before the export");
  }
  const ElementType type = input.element_type();
  const std::vector<Dim> channels{input.dim(1)};
  return g.op("BatchNormalization", input, g.cast(weight.value_or(filled(g, channels, 1, type)), type),
              g.cast(bias.value_or(filled(g, channels, 0, type)), type), g.cast(*mean, type),
              g.cast(*variance, type), attr("epsilon", eps));
}

// Mean and variance over the last `axes` dims, in the given order of operations of the paper (Ba et al. 2016,
// arXiv:1607.06450).
Value layer_norm_by_parts(GraphBuilder& g, Value input, int64_t axes, double eps) {
  std::vector<int64_t> reduced;
  for (int64_t axis = -axes; axis < 0; ++axis) reduced.push_back(axis);
  Value centered = g.op("Sub", input, g.reduce("ReduceMean", input, reduced, true));
  Value variance = g.reduce("ReduceMean", g.op("Mul", centered, centered), reduced, true);
  return g.op("Div", centered, g.op("Sqrt", g.op("Add", variance, g.scalar_like(input, eps))));
}

Value layer_norm(GraphBuilder& g, Value input, std::vector<Dim> normalized_shape, std::optional<Value> weight,
                 std::optional<Value> bias, double eps, Ignored) {
  const auto axes = static_cast<int64_t>(normalized_shape.size());
  const ElementType type = input.element_type();
  // LayerNormalization computes in float32 at most.
  if (g.opset() >= 17 && type != ElementType::float64) {
    Value scale = weight.value_or(filled(g, normalized_shape, 1, type));
    return g.op("LayerNormalization", input, g.cast(scale, type), bias, attr("axis", -axes),
                attr("epsilon", eps));
  }
  const bool half = type == ElementType::float16 || type == ElementType::bfloat16;
  Value wide = half ? g.cast(input, ElementType::float32) : input;
  Value result = layer_norm_by_parts(g, wide, axes, eps);
  if (weight) result = g.op("Mul", result, g.cast(*weight, wide.element_type()));
  if (bias) result = g.op("Add", result, g.cast(*bias, wide.element_type()));
  return g.cast(result, type);
}

}  // namespace

void register_normalization(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
     "running_var, bool training, "
     "float momentum, float eps, bool cudnn_enabled) -> Tensor",
     Since{9}, batch_norm);

  on("aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
     "float eps=1e-05, "
     "bool cudnn_enable=True) -> Tensor",
     Since{9}, layer_norm);
}

}  // namespace opbridge::lowering
