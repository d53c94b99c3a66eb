// Adaptive pooling: output i of n reduces the elements [floor(i * size / n), ceil((i + 1) * size / n)).
#include <fmt/format.h>

#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/nn/pooling.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {

AdaptiveWindows adaptive_windows(GraphBuilder& g, const Dim& size, const Dim& count) {
  // ONNX Runtime does not divide by 0, even if there is nothing to divide.
  const Dim divisor = max(count, Dim(1));
  Value starts = g.op("Div", arithmetic(g, 0, size, count), g.size(divisor));
  Value ends = g.op("Div", arithmetic(g, size + count - 1, size, count), g.size(divisor));
  AdaptiveWindows result{floor_div(size + count - 1, divisor) + 1, {}, g.op("Sub", ends, starts), false};
  if (size.is_static() && count.is_static()) {
    int64_t shortest = size.value(), longest = 0;
    for (int64_t i = 0; i < count.value(); ++i) {
      const int64_t end = (size.value() * (i + 1) + count.value() - 1) / count.value();
      const int64_t length = end - i * size.value() / count.value();
      shortest = std::min(shortest, length);
      longest = std::max(longest, length);
    }
    result.length = longest;
    result.equal = shortest == longest;
  }
  Value offsets = g.unsqueeze(arithmetic(g, 0, 1, result.length), {0});
  Value last = g.unsqueeze(g.op("Sub", result.sizes, g.scalar(1, ElementType::int64)), {1});
  offsets = g.op("Where", g.op("Less", offsets, last), offsets, last);
  result.indices = g.op("Add", g.unsqueeze(starts, {1}), offsets);
  return result;
}

namespace {

std::vector<int64_t> spatial_axes(size_t axes) {
  std::vector<int64_t> result(axes);
  std::iota(result.begin(), result.end(), -static_cast<int64_t>(axes));
  return result;
}

bool is_to_one(std::span<const Dim> output) {
  return std::ranges::all_of(output, [](const Dim& size) { return size.is(1); });
}

bool is_empty(std::span<const Dim> dims) {
  return std::ranges::any_of(dims, [](const Dim& size) { return size.is(0); });
}

std::vector<Dim> result_dims(Value self, const std::vector<Dim>& output) {
  std::vector<Dim> dims = first_dims(self.dims(), self.rank() - static_cast<int64_t>(output.size()));
  dims.insert(dims.end(), output.begin(), output.end());
  return dims;
}

// ONNX does not define pools of images without channels; PyTorch's adaptive pools accept them.
bool has_channels(Value self, size_t axes) {
  const Dim& channels = self.dim(self.rank() - static_cast<int64_t>(axes) - 1);
  return channels.is_static() && channels.value() > 0;
}

// The kernel size if the windows are equal and adjacent; nothing if an output size does not divide its input
// size.
std::optional<std::vector<int64_t>> equal_windows(Value self, std::span<const Dim> output) {
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < output.size(); ++i) {
    const Dim& in = self.dim(static_cast<int64_t>(i) - static_cast<int64_t>(output.size()));
    const Dim& out = output[i];
    if (in == out) {
      kernel.push_back(1);
    } else if (in.is_static() && out.is_static() && out.value() > 0 && in.value() > 0 &&
               in.value() % out.value() == 0) {
      kernel.push_back(in.value() / out.value());
    } else {
      return std::nullopt;
    }
  }
  return kernel;
}

Value mean_along(GraphBuilder& g, Value x, int64_t axis, const Dim& count) {
  const AdaptiveWindows of = adaptive_windows(g, x.dim(axis), count);
  Value parts = g.gather(x, of.indices, axis);
  if (of.equal) return g.reduce("ReduceMean", parts, {axis + 1}, false);
  // Repeated elements do not count.
  std::vector<Dim> dims(x.rank() - axis, 1);
  dims[0] = count;
  Value divisor = g.reshape(of.sizes, dims);
  dims.insert(dims.begin() + 1, of.length);
  Value counted = g.op("Less", arithmetic(g, 0, 1, of.length), g.unsqueeze(of.sizes, {1}));
  Value numbers = g.op("Where", g.reshape(counted, dims), parts, g.scalar_like(x, 0));
  Value sum = g.reduce("ReduceSum", numbers, {axis + 1}, false);
  return g.op("Div", sum, g.cast(divisor, x.element_type()));
}

Value adaptive_avg_pool(GraphBuilder& g, Value self, const std::vector<Dim>& output) {
  const size_t axes = output.size();
  const std::vector<Dim> result = result_dims(self, output);
  if (is_empty(result)) return filled(g, result, 0, self.element_type());
  const bool is_pool = has_channels(self, axes) && !is_integral(self.element_type());
  if (is_to_one(output)) {
    const bool has_batch = self.rank() == static_cast<int64_t>(axes) + 2;
    const bool has_image = !is_empty(last_dims(self.dims(), axes));  // ONNX Runtime's pool fails without
    if (has_batch && is_pool && has_image) return g.op("GlobalAveragePool", self);
    return mean_of(g, self, spatial_axes(axes), true);
  }
  const std::optional<std::vector<int64_t>> kernel = equal_windows(self, output);
  if (!kernel || !is_pool) {
    Value x = g.cast(self, opmath_type(self.element_type()));
    for (size_t i = 0; i < axes; ++i) {
      const int64_t axis = x.rank() - static_cast<int64_t>(axes - i);
      if (!(x.dim(axis) == output[i])) x = mean_along(g, x, axis, output[i]);
    }
    return g.cast(x, self.element_type());
  }
  if (std::ranges::all_of(*kernel, [](int64_t size) { return size == 1; })) return self;
  return on_batch(g, self, axes, [&](Value x) {
    return g.op("AveragePool", x, attr("kernel_shape", *kernel), attr("strides", *kernel));
  });
}

// The elements of all windows, (…, outputs…, elements of a window), and their indices in the flattened
// channel.
struct AllWindows {
  Value elements, indices;
};

AllWindows all_windows(GraphBuilder& g, Value self, const std::vector<Dim>& output) {
  const auto axes = static_cast<int64_t>(output.size()), leading = self.rank() - axes;
  std::vector<Dim> dims_of_all = result_dims(self, output);
  std::vector<int64_t> order(leading);
  std::iota(order.begin(), order.end(), 0);
  Value x = self, indices;
  Dim length(1);
  for (int64_t i = 0; i < axes; ++i) {
    const Dim& size = self.dim(leading + i);
    const AdaptiveWindows of = adaptive_windows(g, size, output[i]);
    x = g.gather(x, of.indices, leading + 2 * i);
    order.push_back(leading + 2 * i);
    // (outputs…, elements of their windows…)
    std::vector<Dim> dims(2 * axes, 1);
    dims[i] = output[i];
    dims[axes + i] = of.length;
    Value along = g.reshape(of.indices, dims);
    indices = indices ? g.op("Add", g.op("Mul", indices, g.size(size)), along) : along;
    length = length * of.length;
  }
  for (int64_t i = 0; i < axes; ++i) order.push_back(leading + 2 * i + 1);
  std::vector<Dim> index_dims = output;
  index_dims.push_back(length);
  dims_of_all.push_back(length);
  return {g.reshape(g.transpose(x, order), dims_of_all),
          g.expand(g.reshape(indices, index_dims), dims_of_all)};
}

// The maxima, and their indices in the flattened channel.
std::array<Value, 2> adaptive_max_pool(GraphBuilder& g, Value self, const std::vector<Dim>& output) {
  const ElementType type = self.element_type();
  const std::vector<Dim> result = result_dims(self, output);
  if (is_empty(result)) return {filled(g, result, 0, type), filled(g, result, 0, ElementType::int64)};
  Value elements, indices;
  if (is_to_one(output)) {
    const auto axes = static_cast<int64_t>(output.size());
    std::vector<Dim> dims = first_dims(self.dims(), self.rank() - axes);
    dims.push_back(element_count(last_dims(self.dims(), axes)));
    elements = g.reshape(self, dims);
  } else {
    const AllWindows all = all_windows(g, self, output);
    elements = all.elements;
    indices = all.indices;
  }
  Extremum greatest(g, true, elements);
  Value values = g.reshape(g.cast(greatest.value(std::vector<int64_t>{-1}, false), type), result);
  Value index = greatest.index(-1, true);
  if (indices) index = g.op("GatherElements", indices, index, attr("axis", -1));
  return {values, g.reshape(index, result)};
}

}  // namespace

void register_adaptive_pooling(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (size_t axes = 1; axes <= 3; ++axes) {
    on(fmt::format("aten::adaptive_avg_pool{0}d(Tensor self, {1}[{0}] output_size) -> Tensor", axes,
                   axes == 1 ? "int" : "SymInt"),
       Since{9}, adaptive_avg_pool);
    if (axes > 1) {
      on(fmt::format("aten::_adaptive_avg_pool{0}d(Tensor self, SymInt[{0}] output_size) -> Tensor", axes),
         Since{9}, adaptive_avg_pool);
    }
    on(fmt::format("aten::adaptive_max_pool{0}d(Tensor self, int[{0}] output_size) -> (Tensor, Tensor)",
                   axes),
       Since{9}, adaptive_max_pool);
  }
}

}  // namespace opbridge::lowering
