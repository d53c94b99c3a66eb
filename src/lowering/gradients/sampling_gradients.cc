// The gradients of grid_sampler: of the image, and of the coordinates at which it is sampled.
#include <fmt/format.h>

#include <vector>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

constexpr int64_t linear_mode = 0, nearest_mode = 1, cubic_mode = 2, zeros = 0, border = 1, reflection = 2;

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

Coordinate in_pixels(const Formula& grid, const Formula& size, bool align_corners) {
  Formula scale = (align_corners ? size - 1 : size) / 2;
  Formula x = (grid + 1) * scale;
  return {align_corners ? x : x - 0.5, scale};
}

Coordinate padded(const Coordinate& at, const Formula& size, int64_t padding, bool align_corners) {
  Formula x = at.pixel, slope = at.slope, last = size - 1;
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

// A pixel along one axis that a sample reads, and the derivative of its weight.
struct Tap {
  Formula weight, slope;
  Value at;      // 0 if it is outside of the image
  Value inside;  // none if every pixel counts
};

class Sampling {
 public:
  // `grad` is (N, C, points…), `input` (N, C, pixels…) and `grid` (N, points…, axes), where x is first.
  Sampling(GraphBuilder& g, Value grad, Value input, Value grid, int64_t mode, int64_t padding,
           bool align_corners)
      : g_(g),
        axes_(input.rank() - 2),
        mode_(mode),
        padding_(padding),
        align_corners_(align_corners),
        type_(opmath_type(input.element_type())) {
    if (axes_ < 1 || grid.rank() != input.rank()) g.refuse("the grid does not have the rank of the image");
    if (mode < linear_mode || mode > (axes_ == 2 ? cubic_mode : nearest_mode))
      g.refuse("interpolation_mode must be 0, 1 or, for images, 2");
    batch_ = input.dim(0), channels_ = input.dim(1);
    sizes_.assign(input.dims().begin() + 2, input.dims().end());
    points_ = element_count(std::span(grid.dims()).subspan(1, axes_));
    pixels_ = element_count(sizes_);
    gradient_ = g.reshape(g.cast(grad, type_), {batch_, channels_, points_});
    image_ = g.reshape(g.cast(input, type_), {batch_, channels_, pixels_});
    Value by_point = g.reshape(g.cast(grid, type_), {batch_, points_, Dim(axes_)});
    for (int64_t axis = 0; axis < axes_; ++axis) {  // the first axis of the image is the last of the grid
      Formula along(g, g.gather(by_point, g.scalar(axes_ - 1 - axis, ElementType::int64), 2));
      Formula size = size_of(axis);
      Coordinate at = in_pixels(along, size, align_corners);
      // Cubic weights are those of the location itself; the padding applies to each pixel.
      coordinates_.push_back(mode == cubic_mode ? at : padded(at, size, padding, align_corners));
    }
  }

  std::vector<Value> run(const std::vector<bool>& mask) {
    Value of_image = filled(g_, std::vector{batch_, channels_, pixels_}, 0, type_);
    std::vector<Formula> of_grid;
    for (int64_t axis = 0; axis < axes_; ++axis)
      of_grid.emplace_back(g_, filled(g_, std::vector{batch_, points_}, 0, type_));
    std::vector<std::vector<Tap>> taps;
    for (int64_t axis = 0; axis < axes_; ++axis) taps.push_back(taps_of(axis));
    int64_t count = 1;
    for (const auto& along : taps) count *= std::ssize(along);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<Tap> chosen;  // one of each axis
      for (int64_t axis = 0, rest = i; axis < axes_; ++axis) {
        chosen.push_back(taps[axis][rest % std::ssize(taps[axis])]);
        rest /= std::ssize(taps[axis]);
      }
      Formula counted = chosen[0].weight;
      for (int64_t axis = 1; axis < axes_; ++axis) counted = counted * chosen[axis].weight;
      const Value inside = inside_of(chosen);
      if (inside) counted = where(Formula(g_, inside), counted, 0);
      Value all = g_.expand(g_.unsqueeze(index_of(chosen), {1}), std::vector{batch_, channels_, points_});
      Formula factor(g_, g_.unsqueeze(counted, {1}));
      if (mask[0])
        of_image = scatter_elements(g_, of_image, all, Formula(g_, gradient_) * factor, 2, Reduction::add);
      if (mode_ == nearest_mode || !mask[1]) continue;
      Formula taken(g_, g_.op("GatherElements", image_, all, attr("axis", 2)));
      Formula shared(g_, g_.reduce("ReduceSum", Formula(g_, gradient_) * taken, {1}, false));
      if (inside) shared = where(Formula(g_, inside), shared, 0);
      for (int64_t axis = 0; axis < axes_; ++axis) {
        Formula part = shared * chosen[axis].slope;
        for (int64_t other = 0; other < axes_; ++other)
          part = other == axis ? part : part * chosen[other].weight;
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
  std::vector<Tap> taps_of(int64_t axis) {
    const Formula& x = coordinates_[axis].pixel;
    Formula floor = node(mode_ == nearest_mode ? "Round" : "Floor", x);
    if (mode_ == nearest_mode) return {tap(axis, floor, Formula::number(1, x), 0)};
    Formula rest = x - floor;
    if (mode_ == linear_mode) return {tap(axis, floor, 1 - rest, -1), tap(axis, floor + 1, rest, 1)};
    // Cubic convolution (Keys, 1981) with a = -0.75, of the distance of a pixel.
    constexpr double a = -0.75;
    const auto near = [](const Formula& d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto far = [](const Formula& d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    const auto slope_near = [](const Formula& d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
    const auto slope_far = [](const Formula& d) { return (3 * a * d - 10 * a) * d + 8 * a; };
    Formula before = rest + 1, next = 1 - rest, after = 2 - rest;
    return {tap(axis, floor - 1, far(before), slope_far(before)),
            tap(axis, floor, near(rest), slope_near(rest)),
            tap(axis, floor + 1, near(next), -slope_near(next)),
            tap(axis, floor + 2, far(after), -slope_far(after))};
  }

  Tap tap(int64_t axis, const Formula& at, const Formula& weight, const Formula& slope) {
    if (mode_ == cubic_mode && padding_ != zeros) {  // as in ATen, the first pixel at NaN
      Formula pixel = padded({at, Formula::number(1, at)}, size_of(axis), padding_, align_corners_).pixel;
      return {weight, slope, g_.cast(where(pixel >= 0, pixel, 0), ElementType::int64), Value()};
    }
    Formula inside = at >= 0 && at <= Formula::size(sizes_[axis], at) - 1;
    return {weight, slope, g_.cast(where(inside, at, 0), ElementType::int64), inside};
  }

  Formula size_of(int64_t axis) { return {g_, g_.cast(g_.size(sizes_[axis]), type_)}; }

  // The index in the flattened image.
  Value index_of(const std::vector<Tap>& taps) {
    Value index = taps[0].at;
    for (int64_t axis = 1; axis < axes_; ++axis)
      index = g_.op("Add", g_.op("Mul", index, g_.size(sizes_[axis])), taps[axis].at);
    return index;
  }

  Value inside_of(const std::vector<Tap>& taps) {
    Value inside = taps[0].inside;
    for (int64_t axis = 1; axis < axes_ && inside; ++axis) inside = g_.op("And", inside, taps[axis].inside);
    return inside;
  }

  GraphBuilder& g_;
  const int64_t axes_, mode_, padding_;
  const bool align_corners_;
  const ElementType type_;
  Dim batch_, channels_, points_, pixels_;
  std::vector<Dim> sizes_;
  Value image_, gradient_;
  std::vector<Coordinate> coordinates_;
};

std::vector<Value> sampling_gradient(GraphBuilder& g, Value grad, Value input, Value grid, int64_t mode,
                                     int64_t padding, bool align_corners, const std::vector<bool>& mask) {
  return Sampling(g, grad, input, grid, mode, padding, align_corners).run(mask);
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
