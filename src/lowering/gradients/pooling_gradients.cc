// The gradients of pools and of paddings, which read elements several times or not at all.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/indexing/indexing.h"
#include "lowering/nn/pooling.h"

namespace opbridge::lowering {
namespace {

// Adds each element of `parts` along `axis` to the one at its index in `rows` of an axis of `size`.
Value add_along(GraphBuilder& g, Value parts, int64_t axis, const Dim& size, Value rows) {
  std::vector<Dim> dims = parts.dims();
  dims.at(axis) = size;
  return scatter_rows(g, filled(g, dims, 0, parts.element_type()), axis, rows, parts, Reduction::add);
}

// Adds `grad` to zeros in the shape of `self`, at `indices` into its last `axes` axes, flattened.
Value max_pool_gradient(GraphBuilder& g, Value grad, Value self, Value indices, size_t axes) {
  const auto leading = self.rank() - static_cast<int64_t>(axes);
  std::vector<Dim> to = first_dims(self.dims(), leading), from = to;
  to.push_back(element_count(last_dims(self.dims(), static_cast<int64_t>(axes))));
  from.push_back(element_count(last_dims(grad.dims(), static_cast<int64_t>(axes))));
  Value sums = scatter_elements(g, filled(g, to, 0, self.element_type()), g.reshape(indices, from),
                                g.reshape(grad, from), -1, Reduction::add);
  return g.reshape(sums, self.dims());
}

// The number of elements in each window along an axis: the divisor of the average.
Value divisors(GraphBuilder& g, const Window& w, size_t i, const Dim& size, const Dim& count,
               bool count_include_pad) {
  Value start = arithmetic(g, -w.padding[i], w.stride[i], count);
  Value end = g.op("Min", g.op("Add", start, g.ints({w.kernel[i]})), g.sizes({size + Dim(w.padding[i])}));
  if (!count_include_pad) {
    start = g.op("Max", start, g.ints({0}));
    end = g.op("Min", end, g.sizes({size}));
  }
  return g.op("Sub", end, start);
}

void check_ranks(GraphBuilder& g, Value grad, Value self, size_t axes) {
  if (std::cmp_less(self.rank(), axes) || grad.rank() != self.rank())
    g.refuse("the gradient has another rank than the image, or this too few dims");
}

Value avg_pool_gradient(GraphBuilder& g, Value grad, Value self, const Window& w, bool count_include_pad,
                        std::optional<int64_t> divisor) {
  Value x = operand(g, grad, grad.element_type());
  if (divisor) x = Formula(g, x) / static_cast<double>(*divisor);
  const size_t axes = w.kernel.size();
  check_ranks(g, x, self, axes);
  for (size_t i = 0; i < axes; ++i) {
    const int64_t axis = self.rank() - static_cast<int64_t>(axes - i);
    const Dim &size = self.dim(axis), count = x.dim(axis), kernel(w.kernel[i]), padding(w.padding[i]);
    if (!divisor) {
      std::vector<Dim> dims(x.rank() - axis, Dim(1));
      dims[0] = count;
      Value by = g.reshape(divisors(g, w, i, size, count, count_include_pad), dims);
      x = Formula(g, x) / Formula(g, g.cast(by, x.element_type()));
    }
    // Each window adds to all its elements, in the padded image.
    std::vector<Dim> of_windows = x.dims();
    of_windows.insert(of_windows.begin() + axis, kernel);
    Value parts = g.expand(g.unsqueeze(x, {axis}), of_windows);
    of_windows.erase(of_windows.begin() + axis);
    of_windows[axis] = kernel * count;
    Value rows =
        g.op("Add", g.unsqueeze(arithmetic(g, 0, 1, kernel), {1}), arithmetic(g, 0, w.stride[i], count));
    const Dim padded = max(size + padding, (count - 1) * Dim(w.stride[i]) + kernel);
    Value sums = add_along(g, g.reshape(parts, of_windows), axis, padded, g.reshape(rows, {kernel * count}));
    std::vector<Dim> dims = sums.dims();
    dims[axis] = size;
    x = g.typed(g.slice(sums, axis, g.sizes({padding}), g.sizes({size + padding})), dims);
  }
  return g.cast(x, g.result().element_type);
}

Value adaptive_avg_pool_gradient(GraphBuilder& g, Value grad, Value self, int64_t axes) {
  Value x = operand(g, grad, grad.element_type());
  check_ranks(g, x, self, static_cast<size_t>(axes));
  for (int64_t axis = self.rank() - axes; axis < self.rank(); ++axis) {
    const Dim count = x.dim(axis);
    const AdaptiveWindows of = adaptive_windows(g, self.dim(axis), count);
    // Repeated elements do not count.
    std::vector<Dim> dims(x.rank() - axis + 1, Dim(1));
    dims[0] = count;
    Formula each = Formula(g, g.unsqueeze(x, {axis + 1})) /
                   Formula(g, g.cast(g.reshape(of.sizes, dims), x.element_type()));
    dims[1] = of.length;
    Value counted = g.op("Less", arithmetic(g, 0, 1, of.length), g.unsqueeze(of.sizes, {1}));
    Value parts = where(Formula(g, g.reshape(counted, dims)), each, 0);
    std::vector<Dim> flattened = x.dims();
    flattened[axis] = count * of.length;
    x = add_along(g, g.reshape(parts, flattened), axis, self.dim(axis),
                  g.reshape(of.indices, {count * of.length}));
  }
  return g.cast(x, g.result().element_type);
}

// The index from which a pad reads each of its elements along an axis of `size`; `index` begins at -padding.
using SourceOfPad = Value (*)(GraphBuilder& g, Value index, Value last);

Value reflected(GraphBuilder& g, Value index, Value last) {
  return g.op("Sub", last, g.op("Abs", g.op("Sub", last, g.op("Abs", index))));
}

Value nearest(GraphBuilder& g, Value index, Value last) {
  return g.op("Min", g.op("Max", index, g.ints({0})), last);
}

// `padding` begins with the last axis: its begin, then its end.
Value pad_gradient(GraphBuilder& g, Value grad, Value self, const std::vector<Dim>& padding,
                   SourceOfPad source) {
  Value x = operand(g, grad, grad.element_type());
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    const int64_t axis = self.rank() - 1 - static_cast<int64_t>(i);
    const Dim& size = self.dim(axis);
    Value index = arithmetic(g, Dim(-1) * padding[2 * i], 1, x.dim(axis));
    x = add_along(g, x, axis, size, source(g, index, g.sizes({size - 1})));
  }
  return g.cast(x, g.result().element_type);
}

}  // namespace

void register_pooling_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Ints = std::vector<int64_t>;

  for (size_t axes = 2; axes <= 3; ++axes) {
    on(fmt::format("aten::max_pool{0}d_with_indices_backward(Tensor grad_output, Tensor self, "
                   "int[{0}] kernel_size, int[{0}] stride, int[{0}] padding, int[{0}] dilation, "
                   "bool ceil_mode, Tensor indices) -> Tensor",
                   axes),
       Since{16},
       [axes](GraphBuilder& g, Value grad, Value self, Ignored, Ignored, Ignored, Ignored, Ignored,
              Value indices) { return max_pool_gradient(g, grad, self, indices, axes); });
    on(fmt::format("aten::adaptive_max_pool{}d_backward(Tensor grad_output, Tensor self, Tensor indices) -> "
                   "Tensor",
                   axes),
       Since{16}, [axes](GraphBuilder& g, Value grad, Value self, Value indices) {
         return max_pool_gradient(g, grad, self, indices, axes);
       });
    on(fmt::format("aten::fractional_max_pool{0}d_backward(Tensor grad_output, Tensor self, "
                   "int[{0}] kernel_size, int[{0}] output_size, Tensor indices) -> Tensor",
                   axes),
       Since{16}, [axes](GraphBuilder& g, Value grad, Value self, Ignored, Ignored, Value indices) {
         return max_pool_gradient(g, grad, self, indices, axes);
       });
    on(fmt::format("aten::avg_pool{0}d_backward(Tensor grad_output, Tensor self, int[{0}] kernel_size, "
                   "int[{0}] stride, int[{0}] padding, bool ceil_mode, bool count_include_pad, "
                   "int? divisor_override) -> Tensor",
                   axes),
       Since{16},
       [axes](GraphBuilder& g, Value grad, Value self, Ints kernel, Ints stride, Ints padding, Ignored,
              bool count_include_pad, std::optional<int64_t> divisor) {
         const Window window = window_of(g, axes, kernel, stride.empty() ? kernel : stride, padding, {1});
         return avg_pool_gradient(g, grad, self, window, count_include_pad, divisor);
       });
    on(fmt::format("aten::_adaptive_avg_pool{}d_backward(Tensor grad_output, Tensor self) -> Tensor", axes),
       Since{16}, [axes](GraphBuilder& g, Value grad, Value self) {
         return adaptive_avg_pool_gradient(g, grad, self, static_cast<int64_t>(axes));
       });
  }
  for (const auto& [name, source] :
       {std::pair{"reflection", SourceOfPad(reflected)}, {"replication", nearest}}) {
    for (int axes = 1; axes <= 3; ++axes) {
      on(fmt::format(
             "aten::{}_pad{}d_backward(Tensor grad_output, Tensor self, SymInt[{}] padding) -> Tensor", name,
             axes, 2 * axes),
         Since{16}, [source = source](GraphBuilder& g, Value grad, Value self, std::vector<Dim> padding) {
           return pad_gradient(g, grad, self, padding, source);
         });
    }
  }
}

}  // namespace opbridge::lowering
