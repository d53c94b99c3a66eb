// The k nearest points. The arguments are those of mmcv.ops.knn.
#include "../common/points.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::knn(int k, Tensor xyz, Tensor center_xyz, bool transposed=False) -> Tensor")
    .shape([](std::int64_t k, const Shape& xyz, const Shape& center_xyz, bool transposed) {
      require_rank(xyz, 3, "xyz");
      require_rank(center_xyz, 3, "center_xyz");
      const std::size_t points = transposed ? 2 : 1, axes = transposed ? 1 : 2;
      require(xyz[axes] == 3, "xyz must hold points (x, y, z), not the shape " + to_string(xyz));
      require(center_xyz[axes] == 3,
              "center_xyz must hold points (x, y, z), not the shape " + to_string(center_xyz));
      require(xyz[0] == center_xyz[0], "xyz and center_xyz must have the same batch");
      require(k > 0 && k <= 100, "k must be from 1 to 100");
      require(xyz[points] >= k, "xyz must have k points or more");
      return Shape{xyz[0], k, center_xyz[points]};
    })
    .cpu(floating_types,
         []<class T>(Context& context, std::int64_t k, TensorView<const T> xyz,
                     TensorView<const T> center_xyz, bool transposed, TensorView<std::int32_t> out) {
           const std::int64_t points = xyz.dim(transposed ? 2 : 1), centers = out.dim(2);
           require_numbers_of_int32(points);
           const std::span<T> rows = context.scratch<T>(transposed ? xyz.size() : 0);
           if (transposed) {
             for (std::int64_t i = 0; i < xyz.size(); ++i) {
               const std::int64_t batch = i / (3 * points), axis = i / points % 3, point = i % points;
               rows[static_cast<std::size_t>((batch * points + point) * 3 + axis)] = xyz[i];
             }
           }
           const T* const all = transposed ? rows.data() : xyz.data();
           context.parallel_for(out.dim(0) * centers, 8, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               const std::int64_t batch = i / centers, center = i % centers;
               T at[3];
               for (std::int64_t axis = 0; axis < 3; ++axis) {
                 at[axis] = transposed ? center_xyz(batch, axis, center) : center_xyz(batch, center, axis);
               }
               Neighbour<T> found[100] = {};
               find_nearest(at, all + batch * points * 3, points,
                            std::span<Neighbour<T>>(found).first(static_cast<std::size_t>(k)));
               for (std::int64_t n = 0; n < k; ++n) out(batch, n, center) = found[n].index;
             }
           });
         });

}  // namespace
}  // namespace opbridge::op
