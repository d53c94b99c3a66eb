// Points within a distance (Qi et al., "PointNet++", 2017). The arguments are those of mmcv.ops.ball_query.
#include "../common/points.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::ball_query(float min_radius, float max_radius, int sample_num, Tensor xyz, Tensor center_xyz) "
    "-> Tensor")
    .shape([](double min_radius, double max_radius, std::int64_t sample_num, const Shape& xyz,
              const Shape& center_xyz) {
      require_rank(xyz, 3, "xyz");
      require_points(xyz, xyz[0], "xyz");
      require_points(center_xyz, xyz[0], "center_xyz");
      require(min_radius >= 0 && min_radius < max_radius,
              "max_radius must be greater than min_radius, which must not be negative");
      require(sample_num > 0, "sample_num must be positive");
      return Shape{xyz[0], center_xyz[1], sample_num};
    })
    .cpu(floating_types,
         []<class T>(Context& context, double min_radius, double max_radius, std::int64_t sample_num,
                     TensorView<const T> xyz, TensorView<const T> center_xyz, TensorView<std::int32_t> out) {
           const std::int64_t centers = out.dim(1), points = xyz.dim(1);
           require_numbers_of_int32(points);
           const auto nearest = static_cast<T>(min_radius), farthest = static_cast<T>(max_radius);
           context.parallel_for(out.dim(0) * centers, 8, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               const T* const all = xyz.slice(i / centers).data();
               std::int32_t* const found = out.data() + i * sample_num;
               std::int64_t count = 0;
               for (std::int64_t point = 0; point < points && count < sample_num; ++point) {
                 const T distance = squared_distance(center_xyz.data() + 3 * i, all + 3 * point);
                 const bool inside =
                     distance == 0 || (distance >= nearest * nearest && distance < farthest * farthest);
                 if (inside) found[count++] = static_cast<std::int32_t>(point);
               }
               // If there are too few points, repeats the first one; if there are none, point 0.
               std::fill(found + count, found + sample_num, count > 0 ? found[0] : 0);
             }
           });
         });

}  // namespace
}  // namespace opbridge::op
