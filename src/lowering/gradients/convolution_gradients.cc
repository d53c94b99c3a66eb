// The gradients of convolutions, which are convolutions themselves.
#include <algorithm>
#include <numeric>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/nn/convolution.h"

namespace opbridge::lowering {
namespace {

std::vector<int64_t> on_both_sides(const std::vector<int64_t>& padding) {
  std::vector<int64_t> pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

// Cuts the spatial axes of `x` off at `dims` if they may be longer.
Value cut(GraphBuilder& g, Value x, const std::vector<Dim>& dims, bool is_longer) {
  for (int64_t axis = 2; is_longer && axis < std::ssize(dims); ++axis)
    x = g.slice(x, axis, g.ints({0}), g.sizes({dims[axis]}));
  return g.typed(x, dims);
}

// The gradient of the input, of shape `dims`: the opposite convolution of the gradient.
Value input_gradient(GraphBuilder& g, Value grad, Value weight, const std::vector<Dim>& dims,
                     const Convolution& c) {
  Convolution back = c;
  back.transposed = !c.transposed;
  const size_t axes = c.stride.size();
  back.output_padding.assign(back.transposed ? axes : 0, 0);
  bool is_longer = false;
  for (size_t i = 0; i < c.output_padding.size(); ++i)
    is_longer |= c.output_padding[i] >= c.stride[i];  // there is room for further windows
  for (size_t i = 0; i < back.output_padding.size(); ++i) {
    // The elements after the last window. If their number is unknown, the result is cut afterwards.
    const auto axis = static_cast<int64_t>(i) + 2;
    const Dim reach =
        (grad.dim(axis) - 1) * Dim(c.stride[i]) + Dim(c.dilation[i]) * (weight.dim(axis) - 1) + 1;
    const Dim rest = dims[axis] + Dim(2 * c.padding[i]) - reach;
    back.output_padding[i] = rest.is_static() ? rest.value() : c.stride[i] - 1;
    is_longer |= !rest.is_static() && c.stride[i] > 1;
  }
  Value result = convolution_of_batch(g, grad, weight, std::nullopt, back, on_both_sides(c.padding));
  return cut(g, result, dims, is_longer);
}

// The gradient of the weight: each of its elements is the product of the gradient with the input, shifted by
// the element's index times the dilation. So the gradient serves as the kernel, and batch and channels are
// swapped.
Value weight_gradient(GraphBuilder& g, Value grad, Value input, std::span<const Dim> kernel,
                      const Convolution& c) {
  const Dim batch = input.dim(0), of_group = floor_div(input.dim(1), Dim(c.groups));
  std::vector<Dim> parts{batch, Dim(c.groups), of_group}, merged{of_group, batch * Dim(c.groups)};
  for (std::vector<Dim>* dims : {&parts, &merged})
    dims->insert(dims->end(), input.dims().begin() + 2, input.dims().end());
  std::vector<int64_t> order(parts.size()), swapped(grad.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[2]);
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[0], swapped[1]);
  Value turned = g.reshape(g.transpose(g.reshape(input, parts), order), merged);
  const Convolution shifts{c.dilation, c.padding, c.stride, c.groups, false, {}};
  Value result = convolution_of_batch(g, turned, g.transpose(grad, swapped), std::nullopt, shifts,
                                      on_both_sides(c.padding));
  std::vector<Dim> dims{of_group, grad.dim(1)};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  const bool is_longer = std::ranges::any_of(c.stride, [](int64_t size) { return size > 1; });
  return g.transpose(cut(g, result, dims, is_longer), swapped);
}

// The gradient of `weight`, of convolutions in both directions.
Value kernel_gradient(GraphBuilder& g, Value grad, Value input, Value weight, const Convolution& c) {
  const std::span<const Dim> kernel = std::span(weight.dims()).subspan(2);
  return c.transposed ? weight_gradient(g, input, grad, kernel, c)
                      : weight_gradient(g, grad, input, kernel, c);
}

// The parameters, checked, of a convolution of a batch.
Convolution of_batch(const GraphBuilder& g, Value input, Value weight, const Convolution& given) {
  const size_t axes = given.stride.size();
  if (weight.rank() != std::ssize(given.stride) + 2 || input.rank() != weight.rank())
    g.refuse("the input needs a batch dim, and all lists one number for each spatial axis");
  return given.of_axes(g, axes);
}

std::vector<Value> convolution_gradient(GraphBuilder& g, Value grad, Value input, Value weight,
                                        const Convolution& given, const std::vector<bool>& mask) {
  const Convolution c = of_batch(g, input, weight, given);
  MaskedResults results(g, mask);
  results.add([&] { return input_gradient(g, grad, weight, input.dims(), c); });
  results.add([&] { return kernel_gradient(g, grad, input, weight, c); });
  results.add([&] {
    return sum(Formula(g, g.cast(grad, opmath_type(grad.element_type()))), axes_except(1, grad.rank()));
  });
  return results.take();
}

// The gradients of the gradients, `grad_of_input` and so on: a convolution is linear in its input, in its
// weight and in its bias. PyTorch ignores the output mask, and returns what the given tensors contribute to.
std::vector<Value> convolution_double_gradient(GraphBuilder& g, std::optional<Value> grad_of_input,
                                               std::optional<Value> grad_of_weight,
                                               std::optional<Value> grad_of_bias, Value grad, Value weight,
                                               Value input, const Convolution& given) {
  const Convolution c = of_batch(g, input, weight, given);
  if (element_count(input).is(0))
    g.refuse("the input has no elements, for which PyTorch returns fewer results");
  const auto convolved = [&](Value x, Value kernel) {
    return Formula(g, convolution_of_batch(g, x, kernel, std::nullopt, c, on_both_sides(c.padding)));
  };
  MaskedResults results(g, {grad_of_input || grad_of_weight || grad_of_bias, grad_of_weight.has_value(),
                            grad_of_input.has_value()});
  results.add([&]() -> Value {
    std::optional<Formula> made;
    const auto add = [&](const Formula& term) { made = made ? *made + term : term; };
    if (grad_of_input) add(convolved(*grad_of_input, weight));
    if (grad_of_weight) add(convolved(input, *grad_of_weight));
    if (grad_of_bias) {
      std::vector<Dim> dims(grad.rank(), Dim(1));
      dims[1] = grad_of_bias->dim(0);
      const Value bias = g.reshape(g.cast(*grad_of_bias, grad.element_type()), dims);
      add(Formula(g, made ? bias : g.expand(bias, grad.dims())));
    }
    return *made;
  });
  results.add([&] { return input_gradient(g, grad, *grad_of_weight, input.dims(), c); });
  results.add([&] { return kernel_gradient(g, grad, *grad_of_input, weight, c); });
  return results.take();
}

}  // namespace

void register_convolution_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Ints = std::vector<int64_t>;

  on("aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
     "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
     "SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value grad, Value input, Value weight, Ignored, Ints stride, Ints padding,
        Ints dilation, bool transposed, Ints output_padding, int64_t groups, std::vector<bool> mask) {
       return convolution_gradient(g, grad, input, weight,
                                   {stride, padding, dilation, groups, transposed, output_padding}, mask);
     });
  on("aten::_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor weight, "
     "Tensor self, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
     "SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, std::optional<Value> grad_of_input, std::optional<Value> grad_of_weight,
        std::optional<Value> grad_of_bias, Value grad, Value weight, Value input, Ints stride, Ints padding,
        Ints dilation, bool transposed, Ints output_padding, int64_t groups, Ignored) {
       return convolution_double_gradient(g, grad_of_input, grad_of_weight, grad_of_bias, grad, weight, input,
                                          {stride, padding, dilation, groups, transposed, output_padding});
     });
  on("aten::conv_tbc_backward(Tensor self, Tensor input, Tensor weight, Tensor bias, int pad) -> "
     "(Tensor, Tensor, Tensor)",
     Since{9}, [](GraphBuilder& g, Value grad, Value input, Value weight, Ignored, int64_t pad) {
       const Convolution c{{1}, {pad}, {1}, 1, false, {}};
       const Formula dy = operand_of_result(g, grad);
       const Value turned = g.transpose(dy, {1, 2, 0}), x = g.transpose(input, {1, 2, 0}),
                   w = g.transpose(weight, {2, 1, 0});
       const Value of_input = input_gradient(g, g.cast(turned, x.element_type()), w, x.dims(), c);
       const Value of_weight = weight_gradient(g, g.cast(turned, x.element_type()), x, {{w.dim(2)}}, c);
       const Value of_bias = g.reshape(sum(dy, {0, 1}), {grad.dim(2)});
       return std::array{g.transpose(of_input, {2, 0, 1}), g.transpose(of_weight, {2, 1, 0}),
                         g.cast(of_bias, grad.element_type())};
     });
  on("aten::_slow_conv2d_backward.output_mask(Tensor grad_output, Tensor self, Tensor weight, "
     "SymInt[2] kernel_size, SymInt[2] stride, SymInt[2] padding, bool[3] output_mask) -> "
     "(Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
     Since{9},
     [](GraphBuilder& g, Value grad, Value input, Value weight, Ignored, Ints stride, Ints padding,
        std::vector<bool> mask) {
       return convolution_gradient(g, grad, input, weight, {stride, padding, {1, 1}, 1, false, {}}, mask);
     });
}

}  // namespace opbridge::lowering
