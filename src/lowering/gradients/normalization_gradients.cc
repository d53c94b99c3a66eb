// The gradients of normalizations, of softmax and of dropout.
#include <numeric>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"

namespace opbridge::lowering {
namespace {

// The gradient of x in y = (x - mean(x)) / deviation(x) over `axes`; `normal` is y, `inverse` the reciprocal
// of the deviation.
Formula normalization_gradient(const Formula& dy, const Formula& normal, const Formula& inverse,
                               const std::vector<int64_t>& axes) {
  return inverse * (dy - mean(dy, axes) - normal * mean(dy * normal, axes));
}

std::vector<int64_t> last_axes(int64_t count) {
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), -count);
  return axes;
}

std::vector<Value> layer_norm_gradient(GraphBuilder& g, Value grad, Value input,
                                       const std::vector<Dim>& shape, Value mean, Value inverse,
                                       std::optional<Value> weight, const std::vector<bool>& mask) {
  const auto depth = static_cast<int64_t>(shape.size());
  const ElementType type = opmath_type(input.element_type());
  std::vector<int64_t> outer(input.rank() - depth);
  std::iota(outer.begin(), outer.end(), 0);
  // PyTorch stores the moments with the dims (outer…, 1…); a wider rank is not required.
  std::vector<Dim> dims = first_dims(input.dims(), input.rank() - depth);
  dims.resize(input.rank(), Dim(1));
  const auto formula = [&](Value value) { return Formula(g, g.cast(value, type)); };
  Formula dy = formula(grad), rstd = formula(g.reshape(inverse, dims));
  Formula normal = (formula(input) - formula(g.reshape(mean, dims))) * rstd;
  MaskedResults results(g, mask);
  results.add([&] {
    Formula scaled = weight ? dy * formula(*weight) : dy;
    return normalization_gradient(scaled, normal, rstd, last_axes(depth));
  });
  results.add([&] { return sum(dy * normal, outer); });
  results.add([&] { return sum(dy, outer); });
  return results.take();
}

std::vector<Value> group_norm_gradient(GraphBuilder& g, Value grad, Value input, Value mean, Value inverse,
                                       std::optional<Value> weight, const Dim& batch, const Dim& channels,
                                       const Dim& pixels, int64_t groups, const std::vector<bool>& mask) {
  const ElementType type = opmath_type(input.element_type());
  const Dim of_group = floor_div(channels, Dim(groups));
  const auto shaped = [&](Value value, const std::vector<Dim>& dims) {
    return Formula(g, g.reshape(g.cast(value, type), dims));
  };
  const std::vector<Dim> all{batch, Dim(groups), of_group, pixels},
      moments{batch, Dim(groups), Dim(1), Dim(1)};
  Formula dy = shaped(grad, all), rstd = shaped(inverse, moments);
  Formula normal = (shaped(input, all) - shaped(mean, moments)) * rstd;
  MaskedResults results(g, mask);
  results.add([&] {
    Formula scaled = weight ? dy * shaped(*weight, {Dim(1), Dim(groups), of_group, Dim(1)}) : dy;
    return normalization_gradient(scaled, normal, rstd, {2, 3});
  });
  results.add([&] { return sum(dy * normal, {0, 3}); });
  results.add([&] { return sum(dy, {0, 3}); });
  return results.take();
}

// `mean` and `inverse` are those of the batch; evaluation mode uses `running_mean` and `running_var`.
std::vector<Value> batch_norm_gradient(GraphBuilder& g, Value grad, Value input, std::optional<Value> weight,
                                       std::optional<Value> running_mean, std::optional<Value> running_var,
                                       std::optional<Value> mean, std::optional<Value> inverse, bool train,
                                       double eps, const std::vector<bool>& mask) {
  const ElementType type = opmath_type(input.element_type());
  if (train ? !mean || !inverse : !running_mean || !running_var)
    g.refuse("the statistics that the forward pass used are missing");
  std::vector<Dim> dims(input.rank(), Dim(1));
  dims[1] = input.dim(1);
  const auto of_channels = [&](Value value) { return Formula(g, g.reshape(g.cast(value, type), dims)); };
  const std::vector<int64_t> others = axes_except(1, input.rank());
  Formula dy(g, g.cast(grad, type)), x(g, g.cast(input, type));
  Formula rstd = train ? of_channels(*inverse) : 1 / sqrt(of_channels(*running_var) + eps);
  Formula normal = (x - of_channels(train ? *mean : *running_mean)) * rstd;
  MaskedResults results(g, mask);
  results.add([&] {
    Formula scaled = weight ? dy * of_channels(*weight) : dy;
    return train ? normalization_gradient(scaled, normal, rstd, others) : scaled * rstd;
  });
  results.add([&] { return sum(dy * normal, others); });
  results.add([&] { return sum(dy, others); });
  return results.take();
}

// The gradient of Softmax, or of LogSoftmax if `logarithm`, from its output.
Value softmax_gradient(GraphBuilder& g, Value gradient, Value output, int64_t dim, ElementType input_type,
                       bool logarithm) {
  if (input_type != gradient.element_type())
    g.refuse(
        "PyTorch's kernel returns the gradient's type, but its shape rule says input_dtype; pass the "
        "gradient's "
        "type");
  const std::vector<Dim> dims = gradient.dims();
  if (dims != output.dims()) g.refuse("the gradient and the output have different shapes");
  if (gradient.rank() == 0) {
    gradient = g.unsqueeze(gradient, {0});
    output = g.unsqueeze(output, {0});
  }
  const std::vector<int64_t> axes{wrap_axis(dim, gradient.rank())};
  Value result = in_formula(
      g,
      [&](Formula dy, Formula y) {
        return logarithm ? dy - exp(y) * sum(dy, axes) : (dy - sum(dy * y, axes)) * y;
      },
      gradient, output);
  return g.reshape(result, dims);
}

Formula length_along_others(const Formula& v, int64_t dim) {
  const int64_t rank = Value(v).rank();
  return sqrt(sum(v * v, axes_except(wrap_axis(dim, rank), rank)));
}

}  // namespace

void register_normalization_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Mask = std::vector<bool>;

  on("aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
     "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, "
     "Tensor)",
     Since{9},
     [](GraphBuilder& g, Value grad, Value input, std::vector<Dim> shape, Value mean, Value rstd,
        std::optional<Value> weight, Ignored,
        Mask mask) { return layer_norm_gradient(g, grad, input, shape, mean, rstd, weight, mask); });
  on("aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
     "Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, "
     "Tensor)",
     Since{9}, group_norm_gradient);
  on("aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, "
     "Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, "
     "float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     Since{9}, batch_norm_gradient);
  on("aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, "
     "Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, "
     "bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value grad, Value input, Value weight, std::optional<Value> running_mean,
        std::optional<Value> running_var, std::optional<Value> mean, std::optional<Value> inverse,
        bool update, double eps, Mask mask, Ignored) {
       return batch_norm_gradient(g, grad, input, weight, running_mean, running_var, mean, inverse, update,
                                  eps, mask);
     });

  on("aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
     "Tensor",
     Since{9}, [](GraphBuilder& g, Value gradient, Value output, int64_t dim, ElementType type) {
       return softmax_gradient(g, gradient, output, dim, type, false);
     });
  on("aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
     "ScalarType input_dtype) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value gradient, Value output, int64_t dim, ElementType type) {
       return softmax_gradient(g, gradient, output, dim, type, true);
     });
  // `mask` hides elements; without `dim` it is that of attention, along the last axis.
  on("aten::_masked_softmax_backward(Tensor grad_output, Tensor output, Tensor mask, int? dim=None) -> "
     "Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value output, Value mask, std::optional<int64_t> dim) {
       const std::vector<int64_t> axes{wrap_axis(dim.value_or(-1), grad.rank())};
       Formula hidden(g, g.cast(mask, ElementType::boolean));
       return in_formula(
           g, [&](Formula dy, Formula y) { return where(hidden, 0, (dy - sum(dy * y, axes)) * y); }, grad,
           output);
     });
  on("aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", Since{9},
     [](GraphBuilder& g, Value direction, Value size, int64_t dim) {
       if (size.rank() != direction.rank())
         g.refuse("PyTorch's kernel and its shape rule disagree if g and v differ in rank; reshape g");
       if (g.result(1).element_type == ElementType::float16)
         g.refuse(
             "PyTorch's kernel and its shape rule disagree on the type of the norms; convert v to float32");
       Formula v = operand_of_result(g, direction);
       Formula norm = length_along_others(v, dim);
       Value scaled = v * (operand_of_result(g, size) / norm);
       return std::array{g.cast(scaled, g.result(0).element_type), g.cast(norm, g.result(1).element_type)};
     });
  for (const std::string name : {"_weight_norm_interface_backward", "_weight_norm_differentiable_backward"}) {
    on("aten::" + name +
           "(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim) -> "
           "(Tensor, Tensor)",
       Since{9}, [](GraphBuilder& g, Value grad, Value direction, Value size, Value norms, int64_t dim) {
         if (!is_floating_point(grad.element_type()) || !is_floating_point(direction.element_type()))
           g.refuse("the tensors must be of floating point");
         Formula dy = operand_of_result(g, grad), v = operand_of_result(g, direction),
                 length = operand_of_result(g, size), norm = operand_of_result(g, norms);
         Formula along = sum(dy * v, axes_except(wrap_axis(dim, direction.rank()), direction.rank()));
         Value of_direction = (dy - v * (along / (norm * norm))) * (length / norm);
         return std::array{g.cast(of_direction, g.result(0).element_type),
                           g.cast(along / norm, g.result(1).element_type)};
       });
  }
  on("aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", Since{9},
     [](GraphBuilder& g, Value gradient, Value mask, double scale) {
       return in_formula(
           g, [&](Formula dy, Formula kept) { return dy * kept * scale; }, gradient, mask);
     });
}

}  // namespace opbridge::lowering
