#include "lowering/nn/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/nn/pooling.h"

namespace opbridge::lowering {

Convolution Convolution::of_axes(const GraphBuilder& g, size_t axes) const {
  return {strides(g, stride, axes),
          paddings(g, padding, axes),
          dilations(g, dilation, axes),
          per_axis(g, "groups", {groups}, 1, 1).front(),
          transposed,
          transposed ? per_axis(g, "output_padding", output_padding, axes, 0) : output_padding};
}

namespace {

// The bias, shaped to be added to images with this many spatial axes.
Value per_channel(GraphBuilder& g, Value bias, size_t axes) {
  std::vector<Dim> dims(axes + 1, Dim(1));
  dims[0] = bias.dim(0);
  return g.reshape(bias, dims);
}

}  // namespace

Value convolution_by_products(GraphBuilder& g, Value x, Value weight, std::optional<Value> bias,
                              const Convolution& c, std::vector<int64_t> pads) {
  const size_t axes = weight.rank() - 2;
  const ElementType type = x.element_type();
  x = operand(g, x, type);
  weight = operand(g, weight, type);
  Window window{{}, c.stride, {}, c.dilation};
  for (size_t i = 0; i < axes; ++i) {
    if (!weight.dim(static_cast<int64_t>(i) + 2).is_static())
      g.refuse("a kernel of dynamic size is supported for float32 only; convert the input and the weight");
    window.kernel.push_back(
        per_axis(g, "the kernel's size", {weight.dim(static_cast<int64_t>(i) + 2).value()}, 1, 1).front());
  }
  if (c.transposed) {  // (in, out / groups, …) to (out, in / groups, …), with each kernel reversed
    const Dim in = weight.dim(0), out = weight.dim(1), per_group = floor_div(in, Dim(c.groups));
    std::vector<Dim> dims{c.groups, per_group};
    dims.insert(dims.end(), weight.dims().begin() + 1, weight.dims().end());
    std::vector<int64_t> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[1], order[2]);
    weight = g.transpose(g.reshape(weight, dims), order);
    dims.erase(dims.begin());
    dims[0] = out * Dim(c.groups);
    dims[1] = per_group;
    weight = g.reshape(weight, dims);
    for (size_t i = 0; i < axes; ++i) {
      weight = reversed(g, weight, static_cast<int64_t>(i) + 2);
      const int64_t reach = window.dilation[i] * (window.kernel[i] - 1);
      pads[i] = reach - pads[i];
      pads[axes + i] = reach - pads[axes + i] + c.output_padding[i];
    }
    x = spread(g, x, window.stride);
    window.stride.assign(axes, 1);
  }
  Value result = gathered_convolution(g, x, weight, window, pads, c.groups);
  if (bias) result = g.op("Add", result, per_channel(g, operand(g, *bias, type), axes));
  return g.cast(result, type);
}

Value convolution_of_batch(GraphBuilder& g, Value x, Value weight, std::optional<Value> bias,
                           const Convolution& c, std::vector<int64_t> pads) {
  if (is_integral(x.element_type()))  // Conv takes only floating point
    return convolution_by_products(g, x, weight, bias, c, std::move(pads));
  const size_t axes = weight.rank() - 2;
  std::vector<int64_t> output_padding;
  if (c.transposed) {
    output_padding = c.output_padding;
    for (size_t i = 0; i < axes; ++i) {
      // The end padding crops the result, output_padding extends it.
      const int64_t both = std::min(pads[axes + i], output_padding[i]);
      pads[axes + i] -= both;
      output_padding[i] -= both;
    }
  }
  std::vector<Operand> operands{x,
                                weight,
                                bias,
                                attr("strides", c.stride),
                                attr("pads", std::move(pads)),
                                attr("dilations", c.dilation),
                                attr("group", c.groups)};
  if (c.transposed) operands.push_back(attr("output_padding", std::move(output_padding)));
  return g.op_list(c.transposed ? "ConvTranspose" : "Conv", 1, std::move(operands)).front();
}

namespace {

// Some kernels of PyTorch do not check it.
void check_bias(const GraphBuilder& g, Value input, const std::optional<Value>& bias) {
  if (bias && (bias->rank() != 1 || bias->element_type() != input.element_type()))
    g.refuse("the bias is not a vector of the input's element type; reshape or convert it");
}

size_t spatial_axes(const GraphBuilder& g, Value weight) {
  if (weight.rank() < 3) g.refuse("weight has no spatial axis");
  return static_cast<size_t>(weight.rank()) - 2;
}

Value convolution(GraphBuilder& g, Value input, Value weight, std::optional<Value> bias,
                  const Convolution& given) {
  check_bias(g, input, bias);
  const size_t axes = spatial_axes(g, weight);
  const Convolution c = given.of_axes(g, axes);
  std::vector<int64_t> pads = c.padding;
  pads.insert(pads.end(), c.padding.begin(), c.padding.end());
  return on_batch(g, input, axes,
                  [&](Value x) { return convolution_of_batch(g, x, weight, bias, c, std::move(pads)); });
}

// padding='same' or 'valid'. If the padding of 'same' is odd, PyTorch pads one more at the end.
Value convolution_by_name(GraphBuilder& g, Value input, Value weight, std::optional<Value> bias,
                          const Convolution& given, const std::string& padding) {
  check_bias(g, input, bias);
  const size_t axes = spatial_axes(g, weight);
  const Convolution c = given.of_axes(g, axes);
  std::vector<int64_t> pads(2 * axes, 0);
  if (padding == "same") {
    for (size_t i = 0; i < axes; ++i) {
      const Dim& kernel = weight.dim(static_cast<int64_t>(i) + 2);
      if (!kernel.is_static()) g.refuse("padding='same' needs a kernel of constant size");
      const int64_t total = (Dim(c.dilation[i]) * (kernel - Dim(1))).value();
      pads[i] = total / 2;
      pads[axes + i] = total - total / 2;
    }
  } else if (padding != "valid") {
    g.refuse("padding '" + padding + "' is neither 'same' nor 'valid'");
  }
  return on_batch(g, input, axes,
                  [&](Value x) { return convolution_of_batch(g, x, weight, bias, c, std::move(pads)); });
}

}  // namespace

void register_convolution(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Ints = std::vector<int64_t>;

  for (int axes = 1; axes <= 3; ++axes) {
    on(fmt::format("aten::conv{0}d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{0}] stride=1, "
                   "SymInt[{0}] padding=0, "
                   "SymInt[{0}] dilation=1, SymInt groups=1) -> Tensor",
                   axes),
       Since{9},
       [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints stride, Ints padding,
          Ints dilation, int64_t groups) {
         return convolution(g, input, weight, bias, {stride, padding, dilation, groups, false, {}});
       });
    on(fmt::format(
           "aten::conv{0}d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{0}] stride=1, "
           "str padding=\"valid\", SymInt[{0}] dilation=1, SymInt groups=1) -> Tensor",
           axes),
       Since{9},
       [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints stride,
          std::string padding, Ints dilation, int64_t groups) {
         return convolution_by_name(g, input, weight, bias, {stride, {0}, dilation, groups, false, {}},
                                    padding);
       });
    on(fmt::format("aten::conv_transpose{0}d{1}(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{0}] "
                   "stride=1, "
                   "SymInt[{0}] padding=0, SymInt[{0}] output_padding=0, SymInt groups=1, SymInt[{0}] "
                   "dilation=1) -> Tensor",
                   axes, axes == 1 ? "" : fmt::format(".input", axes)),
       Since{9},
       [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints stride, Ints padding,
          Ints output_padding, int64_t groups, Ints dilation) {
         return convolution(g, input, weight, bias,
                            {stride, padding, dilation, groups, true, output_padding});
       });
  }

  on("aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value weight, Value bias, int64_t pad) {
       const Convolution c{{1}, {pad}, {1}, 1, false, {}};
       Value made = convolution(g, g.transpose(self, {1, 2, 0}), g.transpose(weight, {2, 1, 0}), bias, c);
       return g.transpose(made, {2, 0, 1});
     });
  on("aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
     "SymInt[] dilation, "
     "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints stride, Ints padding,
        Ints dilation, bool transposed, Ints output_padding, int64_t groups) {
       return convolution(g, input, weight, bias,
                          {stride, padding, dilation, groups, transposed, output_padding});
     });
  // The kernels of CPUs, which convolution chooses among.
  for (const char* line :
       {"aten::thnn_conv2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias=None, "
        "SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0]) -> Tensor",
        "aten::slow_conv3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias=None, "
        "SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0]) -> Tensor",
        "aten::_slow_conv2d_forward(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias, "
        "SymInt[2] stride, SymInt[2] padding) -> Tensor",
        "aten::slow_conv3d_forward(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias, "
        "SymInt[3] stride, SymInt[3] padding) -> Tensor"}) {
    on(line, Since{9},
       [](GraphBuilder& g, Value self, Value weight, Ignored, std::optional<Value> bias, Ints stride,
          Ints padding) {
         return convolution(g, self, weight, bias, {stride, padding, {1}, 1, false, {}});
       });
  }
  for (const int axes : {2, 3}) {
    const char* ones = axes == 2 ? "[1, 1]" : "[1, 1, 1]";
    const char* zeros = axes == 2 ? "[0, 0]" : "[0, 0, 0]";
    on(fmt::format("aten::slow_conv_dilated{0}d(Tensor self, Tensor weight, SymInt[{0}] kernel_size, "
                   "Tensor? bias=None, SymInt[{0}] stride={1}, SymInt[{0}] padding={2}, "
                   "SymInt[{0}] dilation={1}) -> Tensor",
                   axes, ones, zeros),
       Since{9},
       [](GraphBuilder& g, Value self, Value weight, Ignored, std::optional<Value> bias, Ints stride,
          Ints padding, Ints dilation) {
         return convolution(g, self, weight, bias, {stride, padding, dilation, 1, false, {}});
       });
    on(fmt::format("aten::slow_conv_transpose{0}d(Tensor self, Tensor weight, SymInt[{0}] kernel_size, "
                   "Tensor? bias=None, SymInt[{0}] stride={1}, SymInt[{0}] padding={2}, "
                   "SymInt[{0}] output_padding={2}, SymInt[{0}] dilation={1}) -> Tensor",
                   axes, ones, zeros),
       Since{9},
       [](GraphBuilder& g, Value self, Value weight, Ignored, std::optional<Value> bias, Ints stride,
          Ints padding, Ints output_padding, Ints dilation) {
         return convolution(g, self, weight, bias, {stride, padding, dilation, 1, true, output_padding});
       });
  }
  on("aten::_nnpack_spatial_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[2] padding, "
     "SymInt[2] stride=[1, 1]) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints padding, Ints stride) {
       return convolution(g, input, weight, bias, {stride, padding, {1}, 1, false, {}});
     });
  on("aten::mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, "
     "SymInt[] dilation, SymInt groups) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, Value weight, std::optional<Value> bias, Ints padding, Ints stride,
        Ints dilation, int64_t groups) {
       return convolution(g, self, weight, bias, {stride, padding, dilation, groups, false, {}});
     });
  // torch.jit.trace records these operators; files of older versions have the older form.
  on("aten::_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, "
     "SymInt[] dilation, SymInt groups) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints stride,
        std::string padding, Ints dilation, int64_t groups) {
       return convolution_by_name(g, input, weight, bias, {stride, {0}, dilation, groups, false, {}},
                                  padding);
     });
  on("aten::_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] "
     "padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, "
     "bool deterministic, bool cudnn_enabled) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints stride, Ints padding,
        Ints dilation, bool transposed, Ints output_padding, int64_t groups, Ignored, Ignored, Ignored) {
       return convolution(g, input, weight, bias,
                          {stride, padding, dilation, groups, transposed, output_padding});
     });
  on("aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
     "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, "
     "bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value input, Value weight, std::optional<Value> bias, Ints stride, Ints padding,
        Ints dilation, bool transposed, Ints output_padding, int64_t groups, Ignored, Ignored, Ignored,
        Ignored) {
       return convolution(g, input, weight, bias,
                          {stride, padding, dilation, groups, transposed, output_padding});
     });
}

}  // namespace opbridge::lowering
