#include "lowering/pooling.h"

#include <fmt/format.h>

#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

std::vector<int64_t> per_axis(std::vector<int64_t> values, size_t axes) {
  if (values.size() == 1) values.resize(axes, values.front());
  return values;
}

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

// Whether every window ends inside, so that rounding up or down is the same.
bool rounding_is_idle(Value self, const Window& window, size_t axes) {
  for (size_t i = 0; i < axes; ++i) {
    const Dim& size = self.dim(static_cast<int64_t>(i) - static_cast<int64_t>(axes));
    if (!size.is_static()) return false;
    const int64_t reach =
        size.value() + 2 * window.padding[i] - window.dilation[i] * (window.kernel[i] - 1) - 1;
    if (reach % window.stride[i] != 0) return false;
  }
  return true;
}

int64_t product(std::span<const int64_t> values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

// Means where windows hang over the end of the input. PyTorch divides by what of a window lies in the input
// and its padding (count_include_pad) or in the input alone; what ONNX counts there differs by version.
// So: the mean over whole windows of the input with zeros around it, scaled by how many there are to how many
// count.
Value avg_pool_over_end(GraphBuilder& g, Value self, const Window& window, bool count_include_pad,
                        std::optional<int64_t> divisor) {
  const size_t axes = window.kernel.size();
  std::vector<int64_t> before, after;
  std::vector<double> counts{1};  // of the windows, row by row
  for (size_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<int64_t>(i) - static_cast<int64_t>(axes);
    const Dim &size = self.dim(axis), &result = g.result().dims->at(g.result().rank() + axis);
    if (!size.is_static() || !result.is_static())
      g.refuse("ceil_mode where windows hang over the end needs an input of constant size");
    const int64_t pad = window.padding[i], kernel = window.kernel[i];
    const int64_t end = (result.value() - 1) * window.stride[i] + kernel - pad;  // of the last window
    before.push_back(pad);
    after.push_back(std::max<int64_t>(end - size.value(), 0));
    std::vector<double> next;
    for (double count : counts) {
      for (int64_t place = 0; place < result.value(); ++place) {
        int64_t from = place * window.stride[i] - pad, to = std::min(from + kernel, size.value() + pad);
        if (!count_include_pad) {
          from = std::max<int64_t>(from, 0);
          to = std::min(to, size.value());
        }
        next.push_back(count * static_cast<double>(to - from));
      }
    }
    counts = std::move(next);
  }
  for (double& count : counts)
    count = static_cast<double>(product(window.kernel)) / (divisor ? static_cast<double>(*divisor) : count);
  return on_batch(g, self, axes, [&](Value x) {
    std::vector<int64_t> pads{0, 0};
    pads.insert(pads.end(), before.begin(), before.end());
    pads.insert(pads.end(), {0, 0});
    pads.insert(pads.end(), after.begin(), after.end());
    Value padded = g.op("Pad", x, g.ints(pads), g.scalar_like(x, 0));
    Value mean =
        g.op("AveragePool", padded, attr("kernel_shape", window.kernel), attr("strides", window.stride));
    std::vector<int64_t> dims;
    for (size_t i = 0; i < axes; ++i)
      dims.push_back(g.result().dims->at(g.result().rank() - axes + i).value());
    Value scale = g.constant(ir::Weight::of(std::span<const double>(counts), dims));
    return g.op("Mul", mean, g.cast(scale, x.element_type()));
  });
}

Value avg_pool(GraphBuilder& g, Value self, std::vector<int64_t> kernel, std::vector<int64_t> stride,
               std::vector<int64_t> padding, bool ceil_mode, bool count_include_pad,
               std::optional<int64_t> divisor, size_t axes) {
  kernel = per_axis(kernel, axes);
  const Window window{kernel, stride.empty() ? kernel : per_axis(stride, axes), per_axis(padding, axes),
                      std::vector<int64_t>(axes, 1)};
  if (ceil_mode && !rounding_is_idle(self, window, axes))
    return avg_pool_over_end(g, self, window, count_include_pad, divisor);
  std::vector<int64_t> pads = window.padding;
  pads.insert(pads.end(), window.padding.begin(), window.padding.end());
  return on_batch(g, self, axes, [&](Value x) {
    Value mean =
        g.op("AveragePool", x, attr("kernel_shape", window.kernel), attr("strides", window.stride),
             attr("pads", pads), attr("count_include_pad", count_include_pad || divisor.has_value()));
    if (!divisor) return mean;
    const double count = static_cast<double>(product(kernel)) / static_cast<double>(*divisor);
    return g.op("Mul", mean, g.scalar_like(mean, count));
  });
}

// The padding at the end of each axis with which rounding down gives the size that PyTorch gave by rounding
// up; nothing where only ONNX's own ceil_mode serves, since a size is not constant. PyTorch leaves out a
// window that starts beyond the input and its left padding, which ONNX may count.
std::optional<std::vector<int64_t>> end_padding(GraphBuilder& g, Value self, const Window& window) {
  const size_t axes = window.kernel.size();
  std::vector<int64_t> result;
  for (size_t i = 0; i < axes; ++i) {
    const Dim& size = self.dim(static_cast<int64_t>(i) - static_cast<int64_t>(axes));
    const Dim& count = g.result().dims->at(g.result().rank() - axes + i);
    const int64_t span = window.dilation[i] * (window.kernel[i] - 1) + 1;
    if (!size.is_static() || !count.is_static()) {
      for (size_t j = 0; j < axes; ++j) {
        if (window.padding[j] > 0 || window.stride[j] > window.dilation[j] * (window.kernel[j] - 1) + 1)
          g.refuse("ceil_mode with padding, or with gaps between windows, needs an input of constant size");
      }
      return std::nullopt;
    }
    const int64_t end = (count.value() - 1) * window.stride[i] + span - window.padding[i];
    result.push_back(std::max<int64_t>(end - size.value(), 0));
    if (result.back() >= window.kernel[i])
      g.refuse("ceil_mode where a window ends more than a kernel beyond");
  }
  return result;
}

std::vector<Operand> max_pool_operands(GraphBuilder& g, Value self, Value x, const Window& window,
                                       bool ceil_mode) {
  std::vector<int64_t> pads = window.padding, end = window.padding;
  if (ceil_mode) {
    const std::optional<std::vector<int64_t>> exact = end_padding(g, self, window);
    ceil_mode = !exact;
    if (exact) end = *exact;
  }
  pads.insert(pads.end(), end.begin(), end.end());
  return {x,
          attr("kernel_shape", window.kernel),
          attr("strides", window.stride),
          attr("pads", std::move(pads)),
          attr("dilations", window.dilation),
          attr("ceil_mode", ceil_mode)};
}

Value max_pool(GraphBuilder& g, Value self, const Window& window, bool ceil_mode) {
  return on_batch(g, self, window.kernel.size(), [&](Value x) {
    return g.op_list("MaxPool", 1, max_pool_operands(g, self, x, window, ceil_mode)).front();
  });
}

Window max_window(const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                  const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation, size_t axes) {
  return {per_axis(kernel, axes), per_axis(stride.empty() ? kernel : stride, axes), per_axis(padding, axes),
          per_axis(dilation, axes)};
}

// Places count from 0 in each channel of each sample.
std::array<Value, 2> max_pool_with_places(GraphBuilder& g, Value self, const Window& window, bool ceil_mode) {
  const size_t axes = window.kernel.size();
  const bool batched = self.rank() == static_cast<int64_t>(axes) + 2;
  Value x = batched ? self : g.unsqueeze(self, {0});
  std::vector<Operand> operands = max_pool_operands(g, self, x, window, ceil_mode);
  std::vector<Value> results = g.op_list("MaxPool", 2, std::move(operands));
  // ONNX counts on from channel to channel and from sample to sample.
  Dim channel(1);
  for (size_t i = 0; i < axes; ++i) channel = channel * x.dim(-1 - static_cast<int64_t>(i));
  results[1] = g.op("Mod", results[1], g.size(channel));
  if (batched) return {results[0], results[1]};
  std::vector<Dim> dims = *g.result().dims;
  dims.insert(dims.begin(), Dim(1));
  for (Value& result : results) {
    result.get()->type = ir::TensorType{result.element_type(), dims};
    result = g.squeeze(result, {0});
  }
  return {results[0], results[1]};
}

// What max_pool made, back at its places; zero elsewhere.
Value max_unpool(GraphBuilder& g, Value self, Value places, const std::vector<Dim>& size) {
  Dim channel(1);
  for (const Dim& dim : size) channel = channel * dim;
  const int64_t leading = self.rank() - static_cast<int64_t>(size.size());
  std::vector<Dim> from(self.dims().begin(), self.dims().begin() + leading), to = from;
  Dim pooled(1);
  for (int64_t axis = leading; axis < self.rank(); ++axis) pooled = pooled * self.dim(axis);
  from.push_back(pooled);
  to.push_back(channel);
  Value scattered = g.op("ScatterElements", filled(g, to, 0, self.element_type()), g.reshape(places, from),
                         g.reshape(self, from), attr("axis", -1));
  return g.reshape(scattered, *g.result().dims);
}

}  // namespace

void register_pooling(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Ints = std::vector<int64_t>;

  on("aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool "
     "ceil_mode=False, "
     "bool count_include_pad=True) -> Tensor",
     Since{10},
     [](GraphBuilder& g, Value self, Ints kernel, Ints stride, Ints padding, bool ceil_mode,
        bool count_include_pad) {
       return avg_pool(g, self, kernel, stride, padding, ceil_mode, count_include_pad, std::nullopt, 1);
     });
  for (size_t axes = 2; axes <= 3; ++axes) {
    on(fmt::format(
           "aten::avg_pool{0}d(Tensor self, int[{0}] kernel_size, int[{0}] stride=[], int[{0}] padding=0, "
           "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
           axes),
       Since{10},
       [axes](GraphBuilder& g, Value self, Ints kernel, Ints stride, Ints padding, bool ceil_mode,
              bool count_include_pad, std::optional<int64_t> divisor) {
         return avg_pool(g, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor, axes);
       });
  }

  for (size_t axes = 1; axes <= 3; ++axes) {
    on(fmt::format(
           "aten::max_pool{0}d(Tensor self, int[{0}] kernel_size, int[{0}] stride=[], int[{0}] padding=0, "
           "int[{0}] dilation=1, bool ceil_mode=False) -> Tensor",
           axes),
       Since{10},
       [axes](GraphBuilder& g, Value self, Ints kernel, Ints stride, Ints padding, Ints dilation,
              bool ceil_mode) {
         return max_pool(g, self, max_window(kernel, stride, padding, dilation, axes), ceil_mode);
       });
    on(fmt::format("aten::max_pool{0}d_with_indices(Tensor self, int[{0}] kernel_size, int[{0}] stride=[], "
                   "int[{0}] padding={1}, int[{0}] dilation={2}, bool ceil_mode=False) -> (Tensor, Tensor)",
                   axes, axes == 1 ? "[0]" : "0", axes == 1 ? "[1]" : "1"),
       Since{10},
       [axes](GraphBuilder& g, Value self, Ints kernel, Ints stride, Ints padding, Ints dilation,
              bool ceil_mode) {
         return max_pool_with_places(g, self, max_window(kernel, stride, padding, dilation, axes), ceil_mode);
       });
  }
  on("aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", Since{11},
     [](GraphBuilder& g, Value self, Value places, std::vector<Dim> size) {
       return max_unpool(g, self, places, size);
     });
  on("aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) "
     "-> Tensor",
     Since{11}, [](GraphBuilder& g, Value self, Value places, std::vector<Dim> size, Ignored, Ignored) {
       return max_unpool(g, self, places, size);
     });
}

}  // namespace opbridge::lowering
