// The three nearest points (Qi et al., "PointNet++", 2017). The arguments are those of mmcv.ops.three_nn.
#include <cmath>

#include "../common/points.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::three_nn(Tensor target, Tensor source) -> (Tensor, Tensor)")
    .shape([](const Shape& target, const Shape& source) {
      require_rank(target, 3, "target");
      require_points(target, target[0], "target");
      require_points(source, target[0], "source");
      require(source[1] >= 3, "source must have three points or more");
      const Shape out{target[0], target[1], 3};
      return std::tuple{out, out};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> target, TensorView<const T> source,
                                     TensorView<T> distance, TensorView<std::int32_t> index) {
      const std::int64_t count = target.dim(1), points = source.dim(1);
      require_numbers_of_int32(points);
      context.parallel_for(target.dim(0) * count, 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          Neighbour<T> found[3] = {};
          find_nearest(target.data() + 3 * i, source.slice(i / count).data(), points,
                       std::span<Neighbour<T>>(found));
          for (std::int64_t k = 0; k < 3; ++k) {
            distance[3 * i + k] = std::sqrt(found[k].squared_distance);
            index[3 * i + k] = found[k].index;
          }
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
