// Sampling at places that are themselves data.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {
namespace {

template <size_t count>
const char* choice(GraphBuilder& g, const std::array<const char*, count>& names, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(count)) g.refuse("a mode that PyTorch does not have");
  return names[index];
}

constexpr int64_t cubic_mode = 2;

// Of volumes GridSample is defined from opset 20 on, and ONNX Runtime has it without cubic interpolation.
Value grid_sampler(GraphBuilder& g, Value input, Value grid, int64_t interpolation, int64_t padding,
                   bool align_corners) {
  const bool old = g.opset() < 20;
  if (input.rank() == 5 && (old || interpolation == cubic_mode)) {
    return floating_kernel(g, "opbridge::grid_sample", {input, grid},
                           {attr("interpolation_mode", interpolation), attr("padding_mode", padding),
                            attr("align_corners", align_corners)});
  }
  constexpr std::array before{"bilinear", "nearest", "bicubic"}, since{"linear", "nearest", "cubic"};
  constexpr std::array paddings{"zeros", "border", "reflection"};
  return g.op("GridSample", input, grid, attr("mode", choice(g, old ? before : since, interpolation)),
              attr("padding_mode", choice(g, paddings, padding)), attr("align_corners", align_corners));
}

// Centres of `size` pixels, or with `align_corners` from edge to edge, in [-1, 1].
std::vector<double> centres(int64_t size, bool align_corners) {
  std::vector<double> result(size);
  for (int64_t i = 0; i < size; ++i) {
    const auto place = static_cast<double>(i), count = static_cast<double>(size);
    result[i] = !align_corners ? (2 * place + 1) / count - 1 : size == 1 ? 0 : 2 * place / (count - 1) - 1;
  }
  return result;
}

// theta (N, axes, axes + 1) applied to the homogeneous coordinates of each pixel.
Value affine_grid(GraphBuilder& g, Value theta, const std::vector<Dim>& size, bool align_corners) {
  std::vector<int64_t> spatial;
  for (size_t axis = 2; axis < size.size(); ++axis) {
    if (!size[axis].is_static()) g.refuse("the grid needs an image of constant size");
    spatial.push_back(size[axis].value());
  }
  std::vector<double> base;
  int64_t pixels = 1;
  for (int64_t length : spatial) pixels *= length;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    int64_t rest = pixel;
    for (size_t i = spatial.size(); i-- > 0;) {  // x is the first coordinate
      base.push_back(centres(spatial[i], align_corners)[rest % spatial[i]]);
      rest /= spatial[i];
    }
    base.push_back(1);
  }
  const auto width = static_cast<int64_t>(spatial.size()) + 1;
  return in_kernel_type(g, theta, [&](Value x) {
    Value points = g.constant(ir::Weight::of(std::span<const double>(base), {pixels, width}));
    Value moved = g.op("MatMul", g.cast(points, x.element_type()), g.transpose(x, {0, 2, 1}));
    return g.reshape(moved, *g.result().dims);
  });
}

}  // namespace

void register_sampling(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const char* name : {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"}) {
    on(fmt::format("aten::{}(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
                   "bool align_corners) -> Tensor",
                   name),
       Since{16}, grid_sampler);
  }
  on("aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", Since{9},
     affine_grid);
}

}  // namespace opbridge::lowering
