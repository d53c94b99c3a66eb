#include <fmt/format.h>

#include <numeric>

#include "lowering/add.h"

namespace opbridge::lowering {
namespace {

std::vector<int64_t> per_axis(std::vector<int64_t> values, size_t axes) {
  if (values.size() == 1) values.resize(axes, values.front());
  return values;
}

// Runs `pool` on (N, C, spatial…), for an input with or without its batch dim.
template <class Pool>
Value on_batch(GraphBuilder& g, Value input, size_t axes, Pool pool) {
  if (input.rank() == static_cast<int64_t>(axes) + 2) return pool(input);
  Value pooled = pool(g.unsqueeze(input, {0}));
  std::vector<Dim> dims = *g.result().dims;
  dims.insert(dims.begin(), Dim(1));
  pooled.get()->type = ir::TensorType{input.element_type(), dims};
  return g.squeeze(pooled, {0});
}

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

// With ceil_mode PyTorch leaves out a window that starts beyond the input and its left padding; ONNX may
// count it. Refuses where they can differ; returns whether every window ends inside, so that rounding up or
// down is the same.
bool check_ceil_mode(GraphBuilder& g, Value self, const Window& window, size_t axes) {
  bool exact = true;
  for (size_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<int64_t>(i) - static_cast<int64_t>(axes);
    const Dim &size = self.dim(axis), &result = g.result().dims->at(g.result().rank() - axes + i);
    if (!size.is_static() || !result.is_static()) {
      if (window.padding[i] > 0) g.refuse("ceil_mode with padding needs an input of constant size");
      exact = false;
      continue;
    }
    const int64_t span =
        size.value() + 2 * window.padding[i] - window.dilation[i] * (window.kernel[i] - 1) - 1;
    exact &= span % window.stride[i] == 0;
    if ((span + window.stride[i] - 1) / window.stride[i] + 1 != result.value()) {
      g.refuse("ceil_mode: the last window lies in the padding, which ONNX counts and PyTorch leaves out");
    }
  }
  return exact;
}

Value avg_pool(GraphBuilder& g, Value self, std::vector<int64_t> kernel, std::vector<int64_t> stride,
               std::vector<int64_t> padding, bool ceil_mode, bool count_include_pad,
               std::optional<int64_t> divisor, size_t axes) {
  kernel = per_axis(kernel, axes);
  const Window window{kernel, stride.empty() ? kernel : per_axis(stride, axes), per_axis(padding, axes),
                      std::vector<int64_t>(axes, 1)};
  // What a window counts that hangs over the end differs between PyTorch, ONNX and its runtimes.
  if (ceil_mode && !check_ceil_mode(g, self, window, axes)) {
    g.refuse("avg_pool with ceil_mode, where windows hang over the end of the input");
  }
  std::vector<int64_t> pads = window.padding;
  pads.insert(pads.end(), window.padding.begin(), window.padding.end());
  return on_batch(g, self, axes, [&](Value x) {
    Value mean =
        g.op("AveragePool", x, attr("kernel_shape", window.kernel), attr("strides", window.stride),
             attr("pads", pads), attr("count_include_pad", count_include_pad || divisor.has_value()));
    if (!divisor) return mean;
    const auto count =
        static_cast<double>(std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>()));
    return g.op("Mul", mean, g.scalar_like(mean, count / static_cast<double>(*divisor)));
  });
}

Value max_pool(GraphBuilder& g, Value self, std::vector<int64_t> kernel, std::vector<int64_t> stride,
               std::vector<int64_t> padding, std::vector<int64_t> dilation, bool ceil_mode, size_t axes) {
  kernel = per_axis(kernel, axes);
  std::vector<int64_t> pads = per_axis(padding, axes);
  if (ceil_mode) {
    const Window window{kernel, stride.empty() ? kernel : per_axis(stride, axes), pads,
                        per_axis(dilation, axes)};
    check_ceil_mode(g, self, window, axes);
  }
  pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<int64_t>(axes));
  return on_batch(g, self, axes, [&](Value x) {
    return g.op("MaxPool", x, attr("kernel_shape", kernel),
                attr("strides", stride.empty() ? kernel : per_axis(stride, axes)), attr("pads", pads),
                attr("dilations", per_axis(dilation, axes)), attr("ceil_mode", ceil_mode));
  });
}

Value adaptive_avg_pool(GraphBuilder& g, Value self, const std::vector<Dim>& output, size_t axes) {
  const auto n = static_cast<int64_t>(axes);
  const bool to_one = std::ranges::all_of(output, [](const Dim& size) { return size.is(1); });
  if (to_one) {
    if (self.rank() == n + 2) return g.op("GlobalAveragePool", self);
    std::vector<int64_t> spatial(axes);
    std::iota(spatial.begin(), spatial.end(), -n);
    return g.reduce("ReduceMean", self, spatial, true);
  }
  // Equal windows where the output divides the input.
  std::vector<int64_t> kernel;
  for (int64_t i = 0; i < n; ++i) {
    const Dim& in = self.dim(i - n);
    const Dim& out = output.at(i);
    if (in == out) {
      kernel.push_back(1);
    } else if (in.is_static() && out.is_static() && out.value() > 0 && in.value() % out.value() == 0) {
      kernel.push_back(in.value() / out.value());
    } else {
      g.refuse(fmt::format("the output size {} does not divide the input size {}", out.str(), in.str()));
    }
  }
  if (std::ranges::all_of(kernel, [](int64_t size) { return size == 1; })) return self;
  return on_batch(g, self, axes, [&](Value x) {
    return g.op("AveragePool", x, attr("kernel_shape", kernel), attr("strides", kernel));
  });
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
         return max_pool(g, self, kernel, stride, padding, dilation, ceil_mode, axes);
       });
    on(fmt::format("aten::adaptive_avg_pool{0}d(Tensor self, {1}[{0}] output_size) -> Tensor", axes,
                   axes == 1 ? "int" : "SymInt"),
       Since{9}, [axes](GraphBuilder& g, Value self, std::vector<Dim> output) {
         return adaptive_avg_pool(g, self, output, axes);
       });
  }
}

}  // namespace opbridge::lowering
