// Finds the points in 3-d boxes. The arguments are those of mmcv.ops.points_in_boxes_part and
// points_in_boxes_all.
#include <cmath>

#include "../common/points.h"

namespace opbridge::op {
namespace {

// A box (x, y, z, x_size, y_size, z_size, angle about z), where (x, y, z) is the center of the bottom.
template <class T>
struct Box {
  T x, y, z, half_x, half_y, height, cos, sin;

  explicit Box(const T* row)
      : x(row[0]),
        y(row[1]),
        z(row[2]),
        half_x(row[3] / 2),
        half_y(row[4] / 2),
        height(row[5]),
        cos(std::cos(row[6])),
        sin(std::sin(row[6])) {}

  // The top and the bottom belong to the box; the other sides do not.
  bool contains(const T* point) const {
    const T dx = point[0] - x, dy = point[1] - y, dz = point[2] - z;
    const T along = dx * cos + dy * sin, across = dy * cos - dx * sin;
    return dz >= 0 && dz <= height && std::abs(along) < half_x && std::abs(across) < half_y;
  }
};

template <class T>
std::vector<Box<T>> boxes_of(TensorView<const T> rows) {
  std::vector<Box<T>> boxes;
  for (std::int64_t i = 0; i < rows.dim(0); ++i) boxes.emplace_back(rows.slice(i).data());
  return boxes;
}

void require_inputs(const Shape& points, const Shape& boxes) {
  require_rank(points, 3, "points");
  require_points(points, points[0], "points");
  require_rank(boxes, 3, "boxes");
  require_shape(boxes, {points[0], boxes[1], 7}, "boxes");
}

OPBRIDGE_OPERATOR("opbridge::points_in_boxes_part(Tensor points, Tensor boxes) -> Tensor")
    .shape([](const Shape& points, const Shape& boxes) {
      require_inputs(points, boxes);
      return Shape{points[0], points[1]};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> points, TensorView<const T> boxes,
                                     TensorView<std::int32_t> out) {
      for (std::int64_t batch = 0; batch < out.dim(0); ++batch) {
        const std::vector<Box<T>> all = boxes_of(boxes.slice(batch));
        context.parallel_for(out.dim(1), 256, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const T* const point = points.slice(batch).slice(i).data();
            const auto box =
                std::find_if(all.begin(), all.end(), [&](const Box<T>& b) { return b.contains(point); });
            out(batch, i) = box == all.end() ? -1 : static_cast<std::int32_t>(box - all.begin());
          }
        });
      }
    });

OPBRIDGE_OPERATOR("opbridge::points_in_boxes_all(Tensor points, Tensor boxes) -> Tensor")
    .shape([](const Shape& points, const Shape& boxes) {
      require_inputs(points, boxes);
      return Shape{points[0], points[1], boxes[1]};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> points, TensorView<const T> boxes,
                                     TensorView<std::int32_t> out) {
      for (std::int64_t batch = 0; batch < out.dim(0); ++batch) {
        const std::vector<Box<T>> all = boxes_of(boxes.slice(batch));
        context.parallel_for(out.dim(1), 256, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const T* const point = points.slice(batch).slice(i).data();
            for (std::size_t box = 0; box < all.size(); ++box) {
              out(batch, i, box) = all[box].contains(point) ? 1 : 0;
            }
          }
        });
      }
    });

}  // namespace
}  // namespace opbridge::op
