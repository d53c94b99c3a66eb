// Windows of images, gathered axis by axis, for im2col and for pooling and convolution of types that ONNX's
// operators or a runtime's kernels do not take. Values have an opmath type.

#include <algorithm>

#include "lowering/common.h"
#include "lowering/nn/pooling.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

int64_t constant_size(GraphBuilder& g, Value x, int64_t axis) {
  if (!x.dim(axis).is_static())
    g.refuse("windows of integers and of float64 need an image of constant size; compute in float32");
  return x.dim(axis).value();
}

// The indices of the elements of each window along an axis: (windows, elements). Elements outside the image
// are replaced by another element of the same window.
Value constant_indices(GraphBuilder& g, size_t i, const Window& window, int64_t size, int64_t count) {
  const int64_t kernel = window.kernel[i], dilation = window.dilation[i];
  check_constant(g, (Dim(count) * Dim(kernel)).value());
  std::vector<int64_t> indices;
  for (int64_t index = 0; index < count; ++index) {
    for (int64_t k = 0; k < kernel; ++k) {
      int64_t at = index * window.stride[i] - window.padding[i] + k * dilation;
      if (at < 0) at += (-at + dilation - 1) / dilation * dilation;
      if (at >= size) at -= (at - size + dilation) / dilation * dilation;
      indices.push_back(at);
    }
  }
  return g.constant(ir::Weight::of<int64_t>(indices, {count, kernel}));
}

// Each start plus each offset: (starts, offsets).
Value sums_of(GraphBuilder& g, Value starts, Value offsets) {
  return g.op("Add", g.unsqueeze(starts, {1}), g.unsqueeze(offsets, {0}));
}

// The same for a size that is known only when the model runs.
Value dynamic_indices(GraphBuilder& g, size_t i, const Window& window, const Dim& size, const Dim& count) {
  const int64_t dilation = window.dilation[i];
  const auto number = [&](int64_t value) { return g.scalar(value, ElementType::int64); };
  Value at = sums_of(g, arithmetic(g, -window.padding[i], window.stride[i], count),
                     arithmetic(g, 0, dilation, window.kernel[i]));
  if (window.padding[i] > 0)
    at = g.op("Where", g.op("Less", at, number(0)), g.op("Mod", at, number(dilation)), at);
  Value beyond = g.op("Sub", at, g.size(size - Dim(1)));
  Value steps = g.op("Div", g.op("Add", beyond, number(dilation - 1)), number(dilation));
  Value before = g.op("Sub", at, g.op("Mul", steps, number(dilation)));
  return g.op("Where", g.op("Greater", beyond, number(0)), before, at);
}

// Splits spatial axis i into two: the windows, and the elements of each.
Value windows(GraphBuilder& g, Value x, size_t i, const Window& window, const Dim& count) {
  const auto axis = static_cast<int64_t>(i) + 2;
  const Dim size = x.dim(axis);
  return g.gather(x,
                  size.is_static() && count.is_static()
                      ? constant_indices(g, i, window, size.value(), count.value())
                      : dynamic_indices(g, i, window, size, count),
                  axis);
}

}  // namespace

Value without_batch(GraphBuilder& g, Value result) {
  std::vector<Dim> dims = *g.result().dims;
  dims.insert(dims.begin(), Dim(1));
  return g.squeeze(g.typed(result, std::move(dims)), {0});
}

Value padded(GraphBuilder& g, Value x, const std::vector<int64_t>& pads, const Scalar& value) {
  return padded(g, x, std::vector<Dim>(pads.begin(), pads.end()), value);
}

Value padded(GraphBuilder& g, Value x, const std::vector<Dim>& pads, const Scalar& value) {
  if (std::ranges::all_of(pads, [](const Dim& pad) { return pad.is(0); })) return x;
  const size_t axes = pads.size() / 2;
  std::vector<Dim> all(2 * (axes + 2), 0);
  for (size_t i = 0; i < axes; ++i) {
    all[i + 2] = pads[i];
    all[axes + i + 4] = pads[axes + i];
  }
  return g.op("Pad", x, g.sizes(all), g.scalar_like(x, value));
}

Value window_indices(GraphBuilder& g, const Dim& size, int64_t kernel, int64_t dilation, int64_t stride) {
  const Dim count = floor_div(size - Dim(dilation * (kernel - 1) + 1), Dim(stride)) + Dim(1);
  Value offsets = arithmetic(g, 0, dilation, kernel), starts = arithmetic(g, 0, stride, count);
  return g.op("Add", g.unsqueeze(offsets, {1}), g.unsqueeze(starts, {0}));
}

Value gathered_max_pool(GraphBuilder& g, Value x, const Window& window, const std::vector<Dim>& counts) {
  for (size_t i = counts.size(); i-- > 0;) {
    x = g.reduce("ReduceMax", windows(g, x, i, window, counts[i]), {static_cast<int64_t>(i) + 3}, false);
  }
  return x;
}

// PyTorch returns the first of equal maxima: the first in each row, then the first of these rows.
std::array<Value, 2> maxima_of_windows(GraphBuilder& g, Value x, size_t axes,
                                       const WindowsAlong& windows_along) {
  std::vector<Dim> dims{1, 1};
  for (size_t i = 0; i < axes; ++i) dims.push_back(x.dim(static_cast<int64_t>(i) + 2));
  const Dim elements = element_count(last_dims(x.dims(), static_cast<int64_t>(axes)));
  if (elements.is_static()) check_constant(g, elements.value());
  Value indices = g.expand(g.reshape(arithmetic(g, 0, 1, elements), dims), x.dims());
  for (size_t i = axes; i-- > 0;) {
    const auto axis = static_cast<int64_t>(i) + 3;
    const auto windows = windows_along(x, i);
    auto [greatest, at] = g.ops<2>("TopK", windows(x), g.ints({1}), attr("axis", axis));
    indices = g.op("GatherElements", windows(indices), at, attr("axis", axis));
    indices = g.squeeze(indices, {axis});
    x = g.squeeze(greatest, {axis});
  }
  return {x, indices};
}

std::array<Value, 2> gathered_max_pool_with_indices(GraphBuilder& g, Value x, const Window& window,
                                                    const std::vector<Dim>& counts) {
  return maxima_of_windows(g, x, counts.size(), [&](Value, size_t i) {
    return [&, i](Value value) { return windows(g, value, i, window, counts[i]); };
  });
}

Value gathered_avg_pool(GraphBuilder& g, Value x, const Window& window, const std::vector<Dim>& counts,
                        Value divisors) {
  const size_t axes = counts.size();
  const auto stays = [&](size_t i) {
    return window.kernel[i] == 1 && window.stride[i] == 1 && window.padding[i] == 0;
  };
  std::vector<Dim> pads(2 * axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    if (stays(i)) continue;
    const Dim end = (counts[i] - Dim(1)) * window.stride[i] + window.kernel[i] - window.padding[i];
    pads[i] = window.padding[i];
    pads[axes + i] = end - x.dim(static_cast<int64_t>(i) + 2);
  }
  x = padded(g, x, pads, 0);
  for (size_t i = axes; i-- > 0;) {
    if (stays(i)) continue;
    const auto axis = static_cast<int64_t>(i) + 2;
    Value indices =
        sums_of(g, arithmetic(g, 0, 1, window.kernel[i]), arithmetic(g, 0, window.stride[i], counts[i]));
    x = sum_of(g, g.gather(x, indices, axis), std::vector{axis}, false);
  }
  return g.op("Div", x, g.cast(divisors, x.element_type()));
}

Value spread(GraphBuilder& g, Value x, const std::vector<int64_t>& strides) {
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] == 1) continue;
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t size = constant_size(g, x, axis);
    std::vector<Dim> dims = x.dims();
    const Dim spread_size = Dim(size) * Dim(strides[i]);
    dims.at(axis) = spread_size;
    std::vector<int64_t> pads(2 * (x.rank() + 1), 0);
    pads[x.rank() + 1 + axis + 1] = strides[i] - 1;
    Value zeros = g.op("Pad", g.unsqueeze(x, {axis + 1}), g.ints(pads), g.scalar_like(x, 0));
    x = g.slice(g.reshape(zeros, dims), axis, 0, spread_size.value() - strides[i] + 1);
  }
  return x;
}

Value gathered_convolution(GraphBuilder& g, Value x, Value weight, const Window& window,
                           const std::vector<int64_t>& pads, int64_t groups) {
  const size_t axes = window.kernel.size();
  const Dim batch = x.dim(0);
  const int64_t channels = constant_size(g, x, 1), out_channels = constant_size(g, weight, 0);
  x = padded(g, x, pads, 0);
  std::vector<int64_t> order{0, 1}, counts;
  int64_t terms = channels / groups, indices = 1;
  for (size_t i = axes; i-- > 0;) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t span = window.dilation[i] * (window.kernel[i] - 1) + 1;
    counts.insert(counts.begin(), (constant_size(g, x, axis) - span) / window.stride[i] + 1);
    x = g.gather(x, window_indices(g, x.dim(axis), window.kernel[i], window.dilation[i], window.stride[i]),
                 axis);
    terms *= window.kernel[i];
    indices *= counts.front();
  }
  // (batch, channels, elements, windows, elements, windows, …): all elements first.
  for (size_t i = 0; i < axes; ++i) order.push_back(2 * static_cast<int64_t>(i) + 2);
  for (size_t i = 0; i < axes; ++i) order.push_back(2 * static_cast<int64_t>(i) + 3);
  x = g.reshape(g.transpose(x, order), {batch, groups, terms, indices});
  Value product = g.op("MatMul", g.reshape(weight, {groups, out_channels / groups, terms}), x);
  std::vector<Dim> dims{batch, out_channels};
  dims.insert(dims.end(), counts.begin(), counts.end());
  return g.reshape(product, dims);
}

}  // namespace opbridge::lowering
