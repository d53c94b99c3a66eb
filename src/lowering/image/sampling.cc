// Sampling of images at coordinates that are data.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {
namespace {

template <size_t count>
const char* choice(GraphBuilder& g, const std::array<const char*, count>& names, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(count)) g.refuse("the mode does not exist in PyTorch");
  return names[index];
}

constexpr int64_t cubic_mode = 2;

// GridSample takes volumes from opset 20 on. ONNX does not define the cubic interpolation of volumes.
Value grid_sampler(GraphBuilder& g, Value input, Value grid, int64_t interpolation, int64_t padding,
                   bool align_corners) {
  if (!is_floating_point(grid.element_type())) g.refuse("the coordinates are integers; convert them");
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

// The coordinates of `size` pixels in [-1, 1], float64: their centres, or with `align_corners` from -1 to 1.
// The coordinate of a single pixel is 0.
Value centres(GraphBuilder& g, const Dim& size, bool align_corners) {
  Value doubled = arithmetic(g, Dim(1) - size, 2, size);
  Value divisor = g.size(align_corners ? max(size - Dim(1), 1) : size);
  return g.op("Div", g.cast(doubled, ElementType::float64), g.cast(divisor, ElementType::float64));
}

// The homogeneous coordinates of each pixel, (pixels, axes + 1).
Value homogeneous_coordinates(GraphBuilder& g, const std::vector<Dim>& size, bool align_corners,
                              ElementType type) {
  if (size.size() < 3) g.refuse("the size of a grid has at least 3 dims");
  std::vector<Dim> image(size.begin() + 2, size.end());
  const Dim pixels = element_count(image);
  const auto axes = static_cast<int64_t>(image.size());
  image.push_back(1);
  std::vector<Value> coordinates;
  for (int64_t i = axes; i-- > 0;) {  // x is the first coordinate
    std::vector<Dim> along(image.size(), 1);
    along[i] = image[i];
    Value of_axis = g.cast(centres(g, image[i], align_corners), type);
    coordinates.push_back(g.expand(g.reshape(of_axis, along), image));
  }
  coordinates.push_back(filled(g, image, 1, type));
  return g.reshape(g.concat(coordinates, axes), {pixels, Dim(axes + 1)});
}

// Applies theta (N, axes, axes + 1) to the coordinates.
Value affine_grid(GraphBuilder& g, Value theta, const std::vector<Dim>& size, bool align_corners) {
  return in_opmath_type(g, theta, [&](Value x) {
    Value points = homogeneous_coordinates(g, size, align_corners, x.element_type());
    return g.reshape(g.op("MatMul", points, g.transpose(x, {0, 2, 1})), *g.result().dims);
  });
}

Value affine_grid_gradient(GraphBuilder& g, Value grad, const std::vector<Dim>& size, bool align_corners) {
  return in_opmath_type(g, grad, [&](Value dy) {
    Value points = homogeneous_coordinates(g, size, align_corners, dy.element_type());
    dy = g.reshape(dy, {dy.dim(0), points.dim(0), dy.dim(-1)});
    return g.op("MatMul", g.transpose(dy, {0, 2, 1}), points);
  });
}

}  // namespace

void register_sampling(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const char* name :
       {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback"}) {
    on(fmt::format("aten::{}(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
                   "bool align_corners) -> Tensor",
                   name),
       Since{16}, grid_sampler);
  }
  on("aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", Since{9},
     affine_grid);
  on("aten::affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> Tensor",
     Since{9}, affine_grid_gradient);
}

}  // namespace opbridge::lowering
