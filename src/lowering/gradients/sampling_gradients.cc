// The gradients of grid_sampler: of the image, and of the coordinates at which it is sampled.
#include <fmt/format.h>

#include <vector>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

constexpr int64_t linear_mode = 0, nearest_mode = 1, border = 1, reflection = 2;

// A coordinate in pixels, and its derivative with respect to the grid's coordinate.
struct Coordinate {
  Formula pixel, slope;
};

Coordinate reflected(const Formula& x, const Formula& low, const Formula& span) {
  Formula moved = x - low, distance = abs(moved);
  Formula turns = node("Floor", distance / span);
  Formula rest = distance - turns * span;
  Formula is_odd = turns - 2 * node("Floor", turns / 2) == 1;
  Formula direction = where(moved < 0, Formula::number(-1, x), 1);
  Formula inside = where(is_odd, span - rest, rest) + low;
  Formula slope = where(is_odd, -direction, direction);
  Formula is_point = span == 0;
  return {where(is_point, 0, inside), where(is_point, 0, slope)};
}

Coordinate coordinate(const Formula& grid, const Formula& size, int64_t padding, bool align_corners) {
  Formula last = size - 1, scale = (align_corners ? last : size) / 2;
  Formula x = align_corners ? (grid + 1) * scale : (grid + 1) * scale - 0.5;
  Formula slope = scale;
  if (padding == reflection) {
    const Coordinate made = align_corners ? reflected(x, 0, last) : reflected(x, -0.5, size);
    x = made.pixel;
    slope = slope * made.slope;
  }
  if (padding == reflection || padding == border) {
    Formula below = x <= 0, above = x >= last;
    slope = where(below || above, 0, slope);
    x = where(below, 0, where(above, last, x));
  }
  return {x, slope};
}

class Sampling {
 public:
  // `grad` is (N, C, points…), `input` (N, C, pixels…) and `grid` (N, points…, axes), where x is first.
  Sampling(GraphBuilder& g, Value grad, Value input, Value grid, int64_t padding, bool align_corners)
      : g_(g), axes_(input.rank() - 2), type_(opmath_type(input.element_type())) {
    if (axes_ < 1 || grid.rank() != input.rank()) g.refuse("the grid does not have the rank of the image");
    batch_ = input.dim(0), channels_ = input.dim(1);
    sizes_.assign(input.dims().begin() + 2, input.dims().end());
    points_ = element_count(std::span(grid.dims()).subspan(1, axes_));
    pixels_ = element_count(sizes_);
    gradient_ = g.reshape(g.cast(grad, type_), {batch_, channels_, points_});
    image_ = g.reshape(g.cast(input, type_), {batch_, channels_, pixels_});
    Value by_point = g.reshape(g.cast(grid, type_), {batch_, points_, Dim(axes_)});
    for (int64_t axis = 0; axis < axes_; ++axis) {  // the first axis of the image is the last of the grid
      Formula along(g, g.gather(by_point, g.scalar(axes_ - 1 - axis, ElementType::int64), 2));
      Formula size(g, g.cast(g.size(sizes_[axis]), type_));
      coordinates_.push_back(coordinate(along, size, padding, align_corners));
    }
  }

  std::vector<Value> run(bool is_nearest, const std::vector<bool>& mask) {
    Value of_image = filled(g_, std::vector{batch_, channels_, pixels_}, 0, type_);
    std::vector<Formula> of_grid;
    for (const Coordinate& each : coordinates_) of_grid.push_back(each.pixel * 0);
    const int64_t corners = is_nearest ? 1 : int64_t{1} << axes_;
    for (int64_t corner = 0; corner < corners; ++corner) {
      const auto is_upper = [&](int64_t axis) { return (corner >> axis & 1) != 0; };
      std::vector<Formula> weights;
      Value index, inside;
      for (int64_t axis = 0; axis < axes_; ++axis) {
        Formula x = coordinates_[axis].pixel;
        Formula floor = node(is_nearest ? "Round" : "Floor", x), rest = x - floor;
        weights.push_back(is_nearest ? Formula::number(1, x) : is_upper(axis) ? rest : 1 - rest);
        add_index(is_upper(axis) ? floor + 1 : floor, sizes_[axis], index, inside);
      }
      Formula counted = weights[0];
      for (int64_t axis = 1; axis < axes_; ++axis) counted = counted * weights[axis];
      Value all = g_.expand(g_.unsqueeze(index, {1}), std::vector{batch_, channels_, points_});
      Formula factor(g_, g_.unsqueeze(where(Formula(g_, inside), counted, 0), {1}));
      if (mask[0])
        of_image = scatter_elements(g_, of_image, all, Formula(g_, gradient_) * factor, 2, Reduction::add);
      if (is_nearest || !mask[1]) continue;
      Formula taken(g_, g_.op("GatherElements", image_, all, attr("axis", 2)));
      Formula shared(g_, g_.reduce("ReduceSum", Formula(g_, gradient_) * taken, {1}, false));
      shared = where(Formula(g_, inside), shared, 0);
      for (int64_t axis = 0; axis < axes_; ++axis) {
        Formula part = is_upper(axis) ? shared : -shared;
        for (int64_t other = 0; other < axes_; ++other) part = other == axis ? part : part * weights[other];
        of_grid[axis] = of_grid[axis] + part;
      }
    }
    MaskedResults results(g_, mask);
    results.add([&] { return of_image; });
    results.add([&] {
      std::vector<Value> columns;
      for (int64_t axis = axes_ - 1; axis >= 0; --axis)
        columns.push_back(g_.unsqueeze(of_grid[axis] * coordinates_[axis].slope, {2}));
      return g_.concat(columns, 2);
    });
    return results.take();
  }

 private:
  // Adds an axis to the index in the flattened image, which is 0 for points outside of it.
  void add_index(const Formula& at, const Dim& size, Value& index, Value& inside) {
    Formula last = Formula::size(size, at) - 1;
    Formula is_inside = at >= 0 && at <= last;
    Value along = g_.cast(where(is_inside, at, 0), ElementType::int64);
    index = index ? g_.op("Add", g_.op("Mul", index, g_.size(size)), along) : along;
    inside = inside ? g_.op("And", inside, Value(is_inside)) : Value(is_inside);
  }

  GraphBuilder& g_;
  const int64_t axes_;
  const ElementType type_;
  Dim batch_, channels_, points_, pixels_;
  std::vector<Dim> sizes_;
  Value image_, gradient_;
  std::vector<Coordinate> coordinates_;
};

std::vector<Value> sampling_gradient(GraphBuilder& g, Value grad, Value input, Value grid, int64_t mode,
                                     int64_t padding, bool align_corners, const std::vector<bool>& mask) {
  if (mode != linear_mode && mode != nearest_mode)
    g.refuse("the gradient of cubic sampling is not supported; sample with mode='bilinear'");
  return Sampling(g, grad, input, grid, padding, align_corners).run(mode == nearest_mode, mask);
}

}  // namespace

void register_sampling_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (int axes = 2; axes <= 3; ++axes) {
    on(fmt::format("aten::grid_sampler_{}d_backward(Tensor grad_output, Tensor input, Tensor grid, "
                   "int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> "
                   "(Tensor, Tensor)",
                   axes),
       Since{16}, sampling_gradient);
  }
  on("aten::_grid_sampler_2d_cpu_fallback_backward(Tensor grad_output, Tensor input, Tensor grid, "
     "int interpolation_mode, int padding_mode, bool align_corners) -> (Tensor, Tensor)",
     Since{16},
     [](GraphBuilder& g, Value grad, Value input, Value grid, int64_t mode, int64_t padding,
        bool align_corners) {
       return sampling_gradient(g, grad, input, grid, mode, padding, align_corners, {true, true});
     });
}

}  // namespace opbridge::lowering
