// Assigns 3-d points to a grid of voxels. The arguments are those of mmcv.ops.voxelization.
#include <array>
#include <cmath>
#include <unordered_map>

#include "../common/shapes.h"

namespace opbridge::op {
namespace {

class Grid {
 public:
  Grid(std::span<const double> voxel_size, std::span<const double> coors_range) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      size_[axis] = voxel_size[axis];
      low_[axis] = coors_range[axis];
      count_[axis] =
          static_cast<std::int64_t>(std::round((coors_range[axis + 3] - low_[axis]) / size_[axis]));
    }
  }

  // The voxel of a point, in the order z, y, x; false if it is outside or NaN. Computed in T, as in mmcv.
  template <class T>
  bool locate(const T* point, std::int32_t* voxel) const {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const T index = std::floor((point[axis] - static_cast<T>(low_[axis])) / static_cast<T>(size_[axis]));
      if (!(index >= 0 && index < static_cast<T>(count_[axis]))) return false;
      voxel[2 - axis] = static_cast<std::int32_t>(index);
    }
    return true;
  }

  std::int64_t number(const std::int32_t* voxel) const {
    return (voxel[0] * count_[1] + voxel[1]) * count_[0] + voxel[2];
  }

 private:
  std::array<double, 3> size_, low_;
  std::array<std::int64_t, 3> count_;
};

void require_grid(const Shape& points, std::span<const double> voxel_size,
                  std::span<const double> coors_range) {
  require_rank(points, 2, "points");
  require(points[1] >= 3, "points must have columns x, y and z");
  require(voxel_size.size() == 3, "voxel_size must have three numbers");
  require(coors_range.size() == 6, "coors_range must have six numbers, the lower three first");
  Dim voxels = 1;  // throws if the number of voxels overflows, as Dim arithmetic does
  for (std::size_t axis = 0; axis < 3; ++axis) {
    constexpr auto kMessage =
        "voxel_size must be positive; coors_range must ascend and span fewer than 2^31 voxels per axis";
    require(voxel_size[axis] > 0, kMessage);
    const double count = (coors_range[axis + 3] - coors_range[axis]) / voxel_size[axis];
    require(count >= 0 && count < 0x1p31, kMessage);
    voxels = voxels * static_cast<std::int64_t>(std::round(count));
  }
}

OPBRIDGE_OPERATOR(
    "opbridge::dynamic_voxelize(Tensor points, float[] voxel_size, float[] coors_range) -> Tensor")
    .shape([](const Shape& points, std::span<const double> voxel_size, std::span<const double> coors_range) {
      require_grid(points, voxel_size, coors_range);
      return Shape{points[0], 3};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> points, std::span<const double> voxel_size,
                     std::span<const double> coors_range, TensorView<std::int32_t> coors) {
           const Grid grid(voxel_size, coors_range);
           context.parallel_for(points.dim(0), 1024, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               std::int32_t* const voxel = coors.slice(i).data();
               if (!grid.locate(points.slice(i).data(), voxel)) std::fill_n(voxel, 3, -1);
             }
           });
         });

struct Voxel {
  std::array<std::int32_t, 3> position;
  std::vector<std::int64_t> points;
};

OPBRIDGE_OPERATOR(
    "opbridge::voxelize(Tensor points, float[] voxel_size, float[] coors_range, int max_points=35, "
    "int max_voxels=20000) -> (Tensor voxels, Tensor coors, Tensor num_points_per_voxel)")
    .shape([](const Shape& points, std::span<const double> voxel_size, std::span<const double> coors_range,
              std::int64_t max_points, std::int64_t max_voxels) {
      require_grid(points, voxel_size, coors_range);
      require(max_points > 0 && max_voxels > 0, "max_points and max_voxels must be positive");
      return std::tuple{Shape{Dim::from_data(), max_points, points[1]}, Shape{Dim::from_data(), 3},
                        Shape{Dim::from_data()}};
    })
    .cpu(floating_types, []<class T>(Context&, TensorView<const T> points, std::span<const double> voxel_size,
                                     std::span<const double> coors_range, std::int64_t max_points,
                                     std::int64_t max_voxels, Output<T> voxels, Output<std::int32_t> coors,
                                     Output<std::int32_t> counts) {
      const Grid grid(voxel_size, coors_range);
      std::vector<Voxel> found;
      std::unordered_map<std::int64_t, std::size_t> known;
      for (std::int64_t i = 0; i < points.dim(0); ++i) {
        std::array<std::int32_t, 3> position;
        if (!grid.locate(points.slice(i).data(), position.data())) continue;
        const std::int64_t number = grid.number(position.data());
        auto entry = known.find(number);
        if (entry == known.end()) {
          if (static_cast<std::int64_t>(found.size()) == max_voxels) continue;
          entry = known.emplace(number, found.size()).first;
          found.push_back({position, {}});
        }
        std::vector<std::int64_t>& members = found[entry->second].points;
        if (static_cast<std::int64_t>(members.size()) < max_points) members.push_back(i);
      }
      const auto count = static_cast<std::int64_t>(found.size());
      const std::int64_t features = points.dim(1);
      const TensorView<T> rows = voxels.allocate({count, max_points, features});
      const TensorView<std::int32_t> positions = coors.allocate({count, 3}), sizes = counts.allocate({count});
      std::fill(rows.begin(), rows.end(), T(0));
      for (std::int64_t v = 0; v < count; ++v) {
        const Voxel& voxel = found[static_cast<std::size_t>(v)];
        std::copy(voxel.position.begin(), voxel.position.end(), positions.slice(v).data());
        sizes[v] = static_cast<std::int32_t>(voxel.points.size());
        T* to = rows.slice(v).data();
        for (const std::int64_t i : voxel.points) to = std::copy_n(points.slice(i).data(), features, to);
      }
    });

}  // namespace
}  // namespace opbridge::op
