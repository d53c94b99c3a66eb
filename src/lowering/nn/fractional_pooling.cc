// Fractional max pooling (arXiv:1412.6071): the windows begin at random indices.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/nn/pooling.h"

namespace opbridge::lowering {
namespace {

// The indices of the elements of each window along an axis of `size`: (N, C, windows * kernel). The samples
// are (N, C, 1). As in ATen, the last window ends where the axis does.
Value fractional_indices(GraphBuilder& g, Value samples, const Dim& size, int64_t kernel, int64_t count) {
  const ElementType type = samples.element_type();
  const auto whole = [&](Value number) { return g.cast(number, ElementType::int64); };  // towards 0
  Value last = g.size(size - Dim(kernel));
  Value starts = last;
  if (count > 1) {
    Value step = g.op("Div", g.cast(last, type), g.scalar(count - 1, type));
    Value numbers = arithmetic(g, 0, 1, count);
    Value begins = whole(g.op("Mul", g.op("Add", g.cast(numbers, type), samples), step));
    begins = g.op("Sub", begins, whole(g.op("Mul", samples, step)));
    starts = g.op("Where", g.op("Equal", numbers, g.scalar(count - 1, ElementType::int64)), last, begins);
  }
  const std::vector<Dim> dims{samples.dim(0), samples.dim(1), Dim(count)};
  Value indices = g.op("Add", g.unsqueeze(g.expand(starts, dims), {3}), arithmetic(g, 0, 1, kernel));
  return g.reshape(indices, {dims[0], dims[1], Dim(count) * Dim(kernel)});
}

// The maximum of each window of (N, C, spatial…), and its index in the flattened channel.
std::array<Value, 2> fractional_max_pool(GraphBuilder& g, Value x, const std::vector<int64_t>& kernel,
                                         const std::vector<int64_t>& counts, Value samples) {
  const size_t axes = kernel.size();
  return maxima_of_windows(g, x, axes, [&](Value image, size_t i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    // In 2-d the first sample belongs to the columns, in 3-d to the depth.
    const auto sample = static_cast<int64_t>(axes == 2 ? 1 - i : i);
    Value at =
        fractional_indices(g, g.slice(samples, 2, sample, sample + 1), image.dim(axis), kernel[i], counts[i]);
    std::vector<int64_t> others;
    for (int64_t other = 2; other < image.rank(); ++other) {
      if (other != axis) others.push_back(other);
    }
    std::vector<Dim> taken = image.dims();
    taken[axis] = at.dim(2);
    at = g.expand(g.unsqueeze(at, others), taken);
    std::vector<Dim> split = taken;
    split[axis] = counts[i];
    split.insert(split.begin() + axis + 1, Dim(kernel[i]));
    return [&g, at, axis, split](Value value) {
      return g.reshape(g.op("GatherElements", value, at, attr("axis", axis)), split);
    };
  });
}

}  // namespace

void register_fractional_pooling(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (int64_t axes = 2; axes <= 3; ++axes) {
    on(fmt::format("aten::fractional_max_pool{0}d(Tensor self, int[{0}] kernel_size, int[{0}] output_size, "
                   "Tensor random_samples) -> (Tensor, Tensor)",
                   axes),
       Since{11},
       [axes](GraphBuilder& g, Value self, std::vector<int64_t> kernel, std::vector<int64_t> counts,
              Value samples) -> std::vector<Value> {
         const ElementType type = self.element_type();
         if (type != ElementType::float32 && type != ElementType::float64)
           g.refuse("fractional pooling is supported for float32 and float64; convert the image");
         if (samples.rank() != 3 || samples.element_type() != type || self.rank() < axes + 1)
           g.refuse("the random samples do not fit the image");
         const bool has_batch = self.rank() == axes + 2;
         Value x = has_batch ? self : g.unsqueeze(self, {0});
         // PyTorch accepts the samples of more images, and reads the first ones.
         const Dim images = x.dim(0), sampled = samples.dim(0);
         if (images != sampled)
           samples = g.typed(g.slice(samples, 0, g.scalar(0, ElementType::int64), g.size(images)),
                             {images, samples.dim(1), samples.dim(2)});
         const auto [values, indices] = fractional_max_pool(g, x, kernel, counts, samples);
         if (has_batch) return {values, indices};
         return {without_batch(g, values), without_batch(g, indices)};
       });
  }
}

}  // namespace opbridge::lowering
