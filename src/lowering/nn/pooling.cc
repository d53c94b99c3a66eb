#include "lowering/nn/pooling.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {

std::vector<int64_t> pool_divisors(const GraphBuilder& g, const Window& window,
                                   const std::vector<int64_t>& sizes, const std::vector<int64_t>& counts,
                                   bool count_include_pad) {
  std::vector<int64_t> result{1};
  for (size_t i = 0; i < counts.size(); ++i) {
    check_constant(g, (Dim(static_cast<int64_t>(result.size())) * Dim(counts[i])).value());
    std::vector<int64_t> next;
    for (int64_t count : result) {
      for (int64_t index = 0; index < counts[i]; ++index) {
        int64_t from = index * window.stride[i] - window.padding[i];
        int64_t to = std::min(from + window.kernel[i], sizes[i] + window.padding[i]);
        if (!count_include_pad) {
          from = std::max<int64_t>(from, 0);
          to = std::min(to, sizes[i]);
        }
        next.push_back(count * (to - from));
      }
    }
    result = std::move(next);
  }
  return result;
}

Value pool_divisors(GraphBuilder& g, const Window& window, const std::vector<Dim>& sizes,
                    const std::vector<Dim>& counts, bool count_include_pad) {
  const auto is_static = [](const Dim& dim) { return dim.is_static(); };
  if (std::ranges::all_of(sizes, is_static) && std::ranges::all_of(counts, is_static)) {
    std::vector<int64_t> known, shape;
    for (const Dim& size : sizes) known.push_back(size.value());
    for (const Dim& count : counts) shape.push_back(count.value());
    return g.constant(
        ir::Weight::of<int64_t>(pool_divisors(g, window, known, shape, count_include_pad), shape));
  }
  const auto lesser = [&](Value a, Value b) { return g.op("Where", g.op("Less", a, b), a, b); };
  const auto greater = [&](Value a, Value b) { return g.op("Where", g.op("Less", a, b), b, a); };
  Value result;
  for (size_t i = 0; i < counts.size(); ++i) {
    Value from = arithmetic(g, -window.padding[i], window.stride[i], counts[i]);
    Value to = g.op("Add", from, g.scalar(window.kernel[i], ElementType::int64));
    to = lesser(to, g.size(count_include_pad ? sizes[i] + window.padding[i] : sizes[i]));
    if (!count_include_pad) from = greater(from, g.scalar(0, ElementType::int64));
    std::vector<int64_t> behind(counts.size() - 1 - i);
    std::iota(behind.begin(), behind.end(), 1);
    Value along = g.op("Sub", to, from);
    if (!behind.empty()) along = g.unsqueeze(along, behind);
    result = result ? g.op("Mul", result, along) : along;
  }
  return result;
}

namespace {

// Whether the windows fit exactly, so that rounding the window count up or down makes no difference.
bool fits_exactly(Value self, const Window& window, size_t axes) {
  for (size_t i = 0; i < axes; ++i) {
    const Dim& size = last_dims(self.dims(), axes)[i];
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

struct Sizes {
  std::vector<int64_t> input, result;  // along each spatial axis
};
std::optional<Sizes> constant_sizes(GraphBuilder& g, Value self, size_t axes) {
  Sizes sizes;
  for (size_t i = 0; i < axes; ++i) {
    const Dim &size = last_dims(self.dims(), axes)[i], &result = last_dims(*g.result().dims, axes)[i];
    if (!size.is_static() || !result.is_static()) return std::nullopt;
    sizes.input.push_back(size.value());
    sizes.result.push_back(result.value());
  }
  return sizes;
}

std::vector<Dim> spatial_sizes(Value self, size_t axes) {
  const std::span<const Dim> sizes = last_dims(self.dims(), static_cast<int64_t>(axes));
  return {sizes.begin(), sizes.end()};
}

// PyTorch's ceil_mode drops a window that starts after the input and its left padding. Whether there is one
// may depend on the size, but the result's dims are those of the example.
void check_rounded_up(GraphBuilder& g, const Dim& size, const Window& window, size_t axis) {
  const int64_t span = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
  if (!size.is_static() && window.padding[axis] + window.stride[axis] > span)
    g.refuse("ceil_mode needs an input of constant size if padding + stride exceeds the kernel's extent");
}

// The numbers of windows along each axis.
std::vector<Dim> window_counts(GraphBuilder& g, Value self, const Window& window, bool ceil_mode) {
  const size_t axes = window.kernel.size();
  for (size_t i = 0; i < axes && ceil_mode; ++i)
    check_rounded_up(g, last_dims(self.dims(), axes)[i], window, i);
  const std::span<const Dim> counts = last_dims(*g.result().dims, axes);
  return {counts.begin(), counts.end()};
}

// The padding at the end of an axis with which rounding the window count down gives the windows of ceil_mode.
int64_t padding_at_end(GraphBuilder& g, Value self, const Window& window, size_t axis) {
  const size_t axes = window.kernel.size();
  const Dim &size = last_dims(self.dims(), axes)[axis], &count = last_dims(*g.result().dims, axes)[axis];
  const int64_t padding = window.padding[axis], stride = window.stride[axis];
  const int64_t span = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
  if (size.is_static() && count.is_static())
    return std::max<int64_t>((count.value() - 1) * stride + span - padding - size.value(), 0);
  check_rounded_up(g, size, window, axis);
  return padding + stride - 1;
}

// The mean over whole windows of `x` (N, C, spatial…) padded with zeros.
Value mean_with_zeros(GraphBuilder& g, Value x, const Window& window, const std::vector<int64_t>& pads) {
  return g.op("AveragePool", x, attr("kernel_shape", window.kernel), attr("strides", window.stride),
              attr("pads", pads), attr("count_include_pad", 1));
}

// The fraction of each window that counts, for an input of dynamic size: (1, 1, windows…).
Value counted_part(GraphBuilder& g, Value x, const Window& window, std::vector<int64_t> pads,
                   bool count_include_pad) {
  const size_t axes = window.kernel.size();
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims[0] = dims[1] = 1;
  for (size_t i = 0; i < axes && count_include_pad; ++i) {
    dims[i + 2] = dims[i + 2] + 2 * window.padding[i];
    pads[i] = 0;
    pads[axes + i] = std::max<int64_t>(pads[axes + i] - window.padding[i], 0);
  }
  return mean_with_zeros(g, filled(g, dims, 1, x.element_type()), window, pads);
}

// The mean if windows extend beyond the end of the input. PyTorch divides by the number of window elements in
// the padded input (count_include_pad) or in the input alone; ONNX's definition differs between versions. So
// this computes the mean over whole windows of the zero-padded input and scales it by the ratio of both
// counts.
Value avg_pool_over_end(GraphBuilder& g, Value self, const Window& window, bool count_include_pad,
                        std::optional<int64_t> divisor) {
  const size_t axes = window.kernel.size();
  std::vector<int64_t> pads = window.padding;
  for (size_t i = 0; i < axes; ++i) pads.push_back(padding_at_end(g, self, window, i));
  const auto whole = static_cast<double>(product(window.kernel));
  return on_batch(g, self, axes, [&](Value x) {
    Value mean = mean_with_zeros(g, x, window, pads);
    if (divisor) return g.op("Mul", mean, g.scalar_like(mean, whole / static_cast<double>(*divisor)));
    const std::optional<Sizes> sizes = constant_sizes(g, self, axes);
    if (!sizes) return g.op("Div", mean, counted_part(g, x, window, pads, count_include_pad));
    std::vector<double> factors;
    for (int64_t count : pool_divisors(g, window, sizes->input, sizes->result, count_include_pad))
      factors.push_back(whole / static_cast<double>(count));
    Value scale = g.constant(ir::Weight::of(std::span<const double>(factors), sizes->result));
    return g.op("Mul", mean, g.cast(scale, x.element_type()));
  });
}

Value avg_pool(GraphBuilder& g, Value self, std::vector<int64_t> kernel, std::vector<int64_t> stride,
               std::vector<int64_t> padding, bool ceil_mode, bool count_include_pad,
               std::optional<int64_t> divisor, size_t axes) {
  if (divisor && *divisor == 0) g.refuse("divisor_override is 0");
  const Window window = window_of(g, axes, kernel, stride.empty() ? kernel : stride, padding, {1});
  check_pool(g, window, self, ceil_mode);
  if (is_integral(self.element_type())) {  // AveragePool takes only floating point
    const std::vector<Dim> counts = window_counts(g, self, window, ceil_mode);
    Value divisors = divisor ? g.scalar(*divisor, ElementType::int64)
                             : pool_divisors(g, window, spatial_sizes(self, axes), counts, count_include_pad);
    Value x = operand(g, self, self.element_type());
    Value mean =
        on_batch(g, x, axes, [&](Value x) { return gathered_avg_pool(g, x, window, counts, divisors); });
    return g.cast(mean, self.element_type());
  }
  if (ceil_mode && !fits_exactly(self, window, axes))
    return avg_pool_over_end(g, self, window, count_include_pad, divisor);
  std::vector<int64_t> pads = window.padding;
  pads.insert(pads.end(), window.padding.begin(), window.padding.end());
  return on_batch(g, self, axes, [&](Value x) {
    Value mean =
        g.op("AveragePool", x, attr("kernel_shape", window.kernel), attr("strides", window.stride),
             attr("pads", pads), attr("count_include_pad", count_include_pad || divisor.has_value()));
    if (!divisor) return mean;
    const double count = static_cast<double>(product(window.kernel)) / static_cast<double>(*divisor);
    return g.op("Mul", mean, g.scalar_like(mean, count));
  });
}

// The additional padding at the end with which MaxPool, rounding down, computes PyTorch's ceil_mode.
struct EndOfPool {
  std::vector<int64_t> padding;
  std::vector<int64_t> beyond;  // padding for a separate Pad: MaxPool's must be less than the kernel
};

// Whether some window along an axis reads only padding. PyTorch's maximum is -inf then; ONNX does not define
// MaxPool's. Among the windows that start inside the image, it is enough to check the last one.
bool has_empty_window(const Window& window, size_t axis, int64_t size, int64_t count) {
  const int64_t stride = window.stride[axis], padding = window.padding[axis], step = window.dilation[axis];
  const auto is_empty = [&](int64_t index) {
    const int64_t start = index * stride - padding;
    const int64_t skipped = start < 0 ? (-start + step - 1) / step : 0;
    return skipped >= window.kernel[axis] || start + skipped * step >= size;
  };
  for (int64_t index = 0; index < count && index * stride < padding; ++index) {
    if (is_empty(index)) return true;
  }
  return count > 0 && is_empty(count - 1);
}

bool may_have_empty_window(GraphBuilder& g, Value self, const Window& window, size_t axis) {
  const size_t axes = window.kernel.size();
  const Dim &size = last_dims(self.dims(), axes)[axis], &count = last_dims(*g.result().dims, axes)[axis];
  if (size.is_static() && count.is_static())
    return has_empty_window(window, axis, size.value(), count.value());
  const int64_t least = std::max<int64_t>(size.least().value_or(1), 1);  // PyTorch refuses empty images
  return window.padding[axis] > 0 && window.dilation[axis] > least;
}

// For each of `count` windows along an axis, whether it reads only padding.
Value empty_windows(GraphBuilder& g, const Window& window, size_t axis, const Dim& size, const Dim& count) {
  const auto number = [&](int64_t value) { return g.scalar(value, ElementType::int64); };
  const int64_t step = window.dilation[axis];
  Value start = arithmetic(g, -window.padding[axis], window.stride[axis], count);
  // The first element that is not before the image.
  Value first = g.op("Where", g.op("Less", start, number(0)), g.op("Mod", start, number(step)), start);
  Value last = g.op("Add", start, number((window.kernel[axis] - 1) * step));
  return g.op("Or", g.op("Greater", first, last), g.op("Not", g.op("Less", first, g.size(size))));
}

// The maxima, with -inf for windows that read only padding.
Value with_empty_windows(GraphBuilder& g, Value maxima, Value self, const Window& window) {
  const size_t axes = window.kernel.size();
  for (size_t i = 0; i < axes; ++i) {
    if (!may_have_empty_window(g, self, window, i)) continue;
    Value empty =
        empty_windows(g, window, i, last_dims(self.dims(), axes)[i], last_dims(*g.result().dims, axes)[i]);
    std::vector<int64_t> others(axes - 1 - i);
    std::iota(others.begin(), others.end(), 1);
    if (!others.empty()) empty = g.unsqueeze(empty, others);
    maxima = g.op("Where", empty, g.scalar_like(maxima, -INFINITY), maxima);
  }
  return maxima;
}

EndOfPool rounded_up(GraphBuilder& g, Value self, const Window& window) {
  const size_t axes = window.kernel.size();
  EndOfPool end;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t missing = padding_at_end(g, self, window, i);
    end.padding.push_back(std::min(missing, window.kernel[i] - 1));
    end.beyond.push_back(missing - end.padding.back());
  }
  if (std::ranges::all_of(end.beyond, [](int64_t size) { return size == 0; })) end.beyond.clear();
  return end;
}

// The input, padded at its end with -inf.
Value grown(GraphBuilder& g, Value x, const std::vector<int64_t>& beyond) {
  if (beyond.empty()) return x;
  std::vector<int64_t> pads(beyond.size(), 0);
  pads.insert(pads.end(), beyond.begin(), beyond.end());
  return padded(g, x, pads, -INFINITY);
}

std::vector<Operand> max_pool_operands(Value x, const Window& window, const EndOfPool& end) {
  std::vector<int64_t> pads = window.padding;
  pads.insert(pads.end(), end.padding.begin(), end.padding.end());
  return {x, attr("kernel_shape", window.kernel), attr("strides", window.stride),
          attr("pads", std::move(pads)), attr("dilations", window.dilation)};
}

void refuse_empty_windows(GraphBuilder& g, Value self, const Window& window, std::string_view what) {
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    if (may_have_empty_window(g, self, window, i))
      g.refuse(fmt::format("a window may contain only padding, which has no {}; use less padding or dilation",
                           what));
  }
}

EndOfPool end_of_pool(GraphBuilder& g, Value self, const Window& window, bool ceil_mode) {
  return ceil_mode ? rounded_up(g, self, window) : EndOfPool{window.padding, {}};
}

// MaxPool supports only 8-bit integers, and these cannot be padded with -inf.
bool is_gathered(GraphBuilder& g, Value self, const Window& window, bool ceil_mode) {
  const ElementType type = self.element_type();
  if (!is_integral(type)) return false;
  if (type != ElementType::int8 && type != ElementType::uint8) return true;
  return !end_of_pool(g, self, window, ceil_mode).beyond.empty();
}

Value max_pool(GraphBuilder& g, Value self, const Window& window, bool ceil_mode) {
  const size_t axes = window.kernel.size();
  if (is_integral(self.element_type())) refuse_empty_windows(g, self, window, "maximum of integers");
  if (is_gathered(g, self, window, ceil_mode)) {
    const std::vector<Dim> counts = window_counts(g, self, window, ceil_mode);
    const auto pool = [&](Value x) { return gathered_max_pool(g, x, window, counts); };
    return g.cast(on_batch(g, operand(g, self, self.element_type()), axes, pool), self.element_type());
  }
  const EndOfPool end = end_of_pool(g, self, window, ceil_mode);
  Value maxima = on_batch(g, self, axes, [&](Value x) {
    return g.op_list("MaxPool", 1, max_pool_operands(grown(g, x, end.beyond), window, end)).front();
  });
  return is_integral(self.element_type()) ? maxima : with_empty_windows(g, maxima, self, window);
}

Window max_window(GraphBuilder& g, Value self, const std::vector<int64_t>& kernel,
                  const std::vector<int64_t>& stride, const std::vector<int64_t>& padding,
                  const std::vector<int64_t>& dilation, bool ceil_mode, size_t axes) {
  Window window = window_of(g, axes, kernel, stride.empty() ? kernel : stride, padding, dilation);
  check_pool(g, window, self, ceil_mode);
  return window;
}

// Converts flat indices in images of dims `from` to flat indices in the smaller images of dims `to`.
Value replaced(GraphBuilder& g, Value indices, std::span<const Dim> from, std::span<const Dim> to) {
  Value result;
  Dim row(1);
  for (size_t i = from.size(); i-- > 0;) {
    Value along = i == 0 ? indices : g.op("Mod", indices, g.size(from[i]));
    if (i > 0) indices = g.op("Div", indices, g.size(from[i]));
    along = row.is(1) ? along : g.op("Mul", along, g.size(row));
    result = result ? g.op("Add", result, along) : along;
    row = row * to[i];
  }
  return result;
}

// MaxPool with indices. ONNX's are flat indices in the whole tensor, PyTorch's in the channel.
std::vector<Value> max_pool_of_numbers(GraphBuilder& g, Value x, const Window& window, const EndOfPool& end) {
  Value whole = grown(g, x, end.beyond);
  std::vector<Value> results = g.op_list("MaxPool", 2, max_pool_operands(whole, window, end));
  const std::span<const Dim> image = last_dims(x.dims(), x.rank() - 2);
  const std::span<const Dim> larger = last_dims(whole.dims(), whole.rank() - 2);
  results[1] = g.op("Mod", results[1], g.size(element_count(larger)));
  if (!end.beyond.empty()) results[1] = replaced(g, results[1], larger, image);
  return results;
}

// Max pooling with indices in the flattened channel.
std::array<Value, 2> max_pool_with_indices(GraphBuilder& g, Value self, const Window& window,
                                           bool ceil_mode) {
  const size_t axes = window.kernel.size();
  refuse_empty_windows(g, self, window, "index");
  const bool batched = self.rank() == static_cast<int64_t>(axes) + 2;
  Value x = batched ? self : g.unsqueeze(self, {0});
  std::array<Value, 2> results;
  if (is_gathered(g, self, window, ceil_mode)) {
    results = gathered_max_pool_with_indices(g, operand(g, x, self.element_type()), window,
                                             window_counts(g, self, window, ceil_mode));
    results[0] = g.cast(results[0], self.element_type());
  } else {
    const std::vector<Value> made =
        max_pool_of_numbers(g, x, window, end_of_pool(g, self, window, ceil_mode));
    results = {made[0], made[1]};
  }
  if (batched) return results;
  for (Value& result : results) result = without_batch(g, result);
  return results;
}

// Writes pooled values to their indices; all other elements are zero.
Value max_unpool(GraphBuilder& g, Value self, Value indices, const std::vector<Dim>& size) {
  const auto axes = static_cast<int64_t>(size.size());
  // For an empty result, PyTorch does not check the indices.
  if (element_count(size).is(0)) return filled(g, *g.result().dims, 0, self.element_type());
  std::vector<Dim> from = first_dims(self.dims(), self.rank() - axes), to = from;
  from.push_back(element_count(last_dims(self.dims(), axes)));
  to.push_back(element_count(size));
  Value scattered = g.op("ScatterElements", filled(g, to, 0, self.element_type()), g.reshape(indices, from),
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
     Since{9},
     [](GraphBuilder& g, Value self, Ints kernel, Ints stride, Ints padding, bool ceil_mode,
        bool count_include_pad) {
       return avg_pool(g, self, kernel, stride, padding, ceil_mode, count_include_pad, std::nullopt, 1);
     });
  for (size_t axes = 2; axes <= 3; ++axes) {
    on(fmt::format(
           "aten::avg_pool{0}d(Tensor self, int[{0}] kernel_size, int[{0}] stride=[], int[{0}] padding=0, "
           "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
           axes),
       Since{9},
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
       Since{9},
       [axes](GraphBuilder& g, Value self, Ints kernel, Ints stride, Ints padding, Ints dilation,
              bool ceil_mode) {
         return max_pool(g, self, max_window(g, self, kernel, stride, padding, dilation, ceil_mode, axes),
                         ceil_mode);
       });
    on(fmt::format("aten::max_pool{0}d_with_indices(Tensor self, int[{0}] kernel_size, int[{0}] stride=[], "
                   "int[{0}] padding={1}, int[{0}] dilation={2}, bool ceil_mode=False) -> (Tensor, Tensor)",
                   axes, axes == 1 ? "[0]" : "0", axes == 1 ? "[1]" : "1"),
       Since{9},
       [axes](GraphBuilder& g, Value self, Ints kernel, Ints stride, Ints padding, Ints dilation,
              bool ceil_mode) {
         return max_pool_with_indices(
             g, self, max_window(g, self, kernel, stride, padding, dilation, ceil_mode, axes), ceil_mode);
       });
  }
  on("aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value indices, std::vector<Dim> size) {
       return max_unpool(g, self, indices, size);
     });
  on("aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) "
     "-> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value indices, std::vector<Dim> size, Ignored, Ignored) {
       return max_unpool(g, self, indices, size);
     });
}

}  // namespace opbridge::lowering
