// im2col and col2im: windows of images as columns, and back.
#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/nn/pooling.h"

namespace opbridge::lowering {
namespace {

using Ints = std::vector<int64_t>;

// (N, C, height, width) to (N, C * elements of the kernel, windows).
Value im2col(GraphBuilder& g, Value self, Ints kernel, Ints dilation, Ints padding, Ints stride) {
  const Window w =
      window_of(g, 2, std::move(kernel), std::move(stride), std::move(padding), std::move(dilation));
  return on_batch(g, self, 2, [&](Value x) {
    x = padded(g, x, std::vector{w.padding[0], w.padding[1], w.padding[0], w.padding[1]}, 0);
    x = g.gather(x, window_indices(g, x.dim(2), w.kernel[0], w.dilation[0], w.stride[0]), 2);
    x = g.gather(x, window_indices(g, x.dim(4), w.kernel[1], w.dilation[1], w.stride[1]), 4);
    std::vector<Dim> result = *g.result().dims;
    if (result.size() == 2) result.insert(result.begin(), Dim(1));
    return g.reshape(g.transpose(x, {0, 1, 2, 4, 3, 5}), result);
  });
}

// Adds up the elements of overlapping windows.
Value col2im(GraphBuilder& g, Value self, const std::vector<Dim>& size, Ints kernel, Ints dilation,
             Ints padding, Ints stride) {
  const Window w =
      window_of(g, 2, std::move(kernel), std::move(stride), std::move(padding), std::move(dilation));
  const Ints pads{w.padding[0], w.padding[1], w.padding[0], w.padding[1]};
  return on_batch(g, self, 1, [&](Value x) {
    return g.op("Col2Im", x, g.sizes(size), g.ints(w.kernel), attr("dilations", w.dilation),
                attr("pads", pads), attr("strides", w.stride));
  });
}

}  // namespace

void register_im2col(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> "
     "Tensor",
     Since{9}, im2col);
  on("aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, "
     "int[2] padding, int[2] stride) -> Tensor",
     Since{18}, col2im);
}

}  // namespace opbridge::lowering
