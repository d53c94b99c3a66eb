// Furthest point sampling (Eldar et al., 1997; Qi et al., "PointNet++", 2017). The arguments are those of
// mmcv.ops.furthest_point_sample.
#include "../common/points.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::furthest_point_sample(Tensor points_xyz, SymInt num_points) -> Tensor")
    .shape([](const Shape& points_xyz, const Dim& num_points) {
      require_rank(points_xyz, 3, "points_xyz");
      require_points(points_xyz, points_xyz[0], "points_xyz");
      require(num_points > 0, "num_points must be positive");
      require(num_points <= points_xyz[1], "num_points must be at most the number of points");
      return Shape{points_xyz[0], num_points};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> points_xyz, std::int64_t,
                                     TensorView<std::int32_t> out) {
      const std::int64_t points = points_xyz.dim(1);
      require_numbers_of_int32(points);
      context.parallel_for(out.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
        const std::span<T> distances = context.scratch<T>(points);
        for (std::int64_t batch = begin; batch < end; ++batch) {
          const T* const all = points_xyz.slice(batch).data();
          std::fill(distances.begin(), distances.end(), std::numeric_limits<T>::infinity());
          std::int64_t last = 0;
          out(batch, 0) = 0;
          for (std::int64_t k = 1; k < out.dim(1); ++k) {
            distances[static_cast<std::size_t>(last)] = 0;  // otherwise NaN for a point with NaN coordinates
            for (std::int64_t i = 0; i < points; ++i) {
              T& distance = distances[static_cast<std::size_t>(i)];
              distance = std::min(distance, squared_distance(all + 3 * last, all + 3 * i));
            }
            last = std::max_element(distances.begin(), distances.end()) - distances.begin();
            out(batch, k) = static_cast<std::int32_t>(last);
          }
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
