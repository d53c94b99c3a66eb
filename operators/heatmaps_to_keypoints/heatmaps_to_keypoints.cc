// Keypoints from heat maps (He et al., "Mask R-CNN", 2017, section 5). The arguments are those of
// torchvision.models.detection.roi_heads.heatmaps_to_keypoints.
#include <array>
#include <cmath>

#include "../common/best_cpu.h"
#include "../common/shapes.h"

namespace opbridge::op {
namespace {

// Cubic convolution (Keys 1981) with PyTorch's coefficient: the indices and weights of the four samples of a
// point. The last sample extends beyond the ends of a map.
template <class T>
struct Taps {
  std::array<std::int64_t, 4> from;
  std::array<T, 4> share;
};

template <class T>
std::vector<Taps<T>> cubic_taps(std::int64_t samples, std::int64_t points) {
  const T a = T(-0.75), scale = static_cast<T>(samples) / static_cast<T>(points);
  const auto near = [&](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [&](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  std::vector<Taps<T>> all(static_cast<std::size_t>(points));
  for (std::int64_t i = 0; i < points; ++i) {
    const T position = scale * (static_cast<T>(i) + T(0.5)) - T(0.5);
    const T low = std::floor(position), t = position - low;
    Taps<T>& taps = all[static_cast<std::size_t>(i)];
    for (std::int64_t k = 0; k < 4; ++k) {
      taps.from[static_cast<std::size_t>(k)] =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(low) - 1 + k, 0, samples - 1);
    }
    taps.share = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  }
  return all;
}

template <class T>
struct Peak {
  T value;
  std::int64_t x, y;
};

// The maximum of a map resized to rows x columns. The first of several equal points is taken; NaN
// exceeds everything.
template <class T>
OPBRIDGE_INLINE Peak<T> peak(TensorView<const T> map, const std::vector<Taps<T>>& columns,
                             const std::vector<Taps<T>>& rows, std::span<T> wide, std::span<T> line) {
  const auto width = static_cast<std::int64_t>(columns.size());
  for (std::int64_t y = 0; y < map.dim(0); ++y) {
    const T* const from = map.slice(y).data();
    for (std::int64_t x = 0; x < width; ++x) {
      const Taps<T>& taps = columns[static_cast<std::size_t>(x)];
      T sum = taps.share[0] * from[taps.from[0]];
      for (std::size_t k = 1; k < 4; ++k) sum += taps.share[k] * from[taps.from[k]];
      wide[static_cast<std::size_t>(y * width + x)] = sum;
    }
  }
  Peak<T> best{-std::numeric_limits<T>::infinity(), 0, 0};
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const Taps<T>& taps = rows[y];
    std::array<const T*, 4> from;
    for (std::size_t k = 0; k < 4; ++k) from[k] = wide.data() + taps.from[k] * width;
    for (std::int64_t x = 0; x < width; ++x) {
      line[static_cast<std::size_t>(x)] = taps.share[0] * from[0][x] + taps.share[1] * from[1][x] +
                                          taps.share[2] * from[2][x] + taps.share[3] * from[3][x];
    }
    for (std::int64_t x = 0; x < width; ++x) {
      const T value = line[static_cast<std::size_t>(x)];
      if (std::isnan(best.value) || value <= best.value) continue;
      best = {value, x, static_cast<std::int64_t>(y)};
    }
  }
  return best;
}

constexpr std::int64_t kMostPoints = 1 << 26;

// The side of a box in pixels, rounded up.
template <class T>
std::int64_t points_of(T side) {
  require(side < T(1 << 24), "the boxes of rois must be finite, with sides below 2^24");
  return static_cast<std::int64_t>(std::ceil(side));
}

OPBRIDGE_OPERATOR(
    "opbridge::heatmaps_to_keypoints(Tensor maps, Tensor rois) -> (Tensor keypoints, Tensor scores)")
    .shape([](const Shape& maps, const Shape& rois) {
      require_rank(maps, 4, "maps");
      require_shape(rois, {maps[0], Dim(4)}, "rois");
      require(maps[2] > 0, "maps must not be empty");
      require(maps[3] > 0, "maps must not be empty");
      return std::tuple{Shape{maps[0], maps[1], 3}, Shape{maps[0], maps[1]}};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> maps, TensorView<const T> rois,
                                     TensorView<T> keypoints, TensorView<T> scores) {
      context.parallel_for(maps.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T width = std::max(rois(i, 2) - rois(i, 0), T(1)),
                  height = std::max(rois(i, 3) - rois(i, 1), T(1));
          const std::int64_t across = points_of(width), down = points_of(height);
          // The map is resized along its rows first.
          require(across <= kMostPoints / std::max(down, maps.dim(2)),
                  "a box of rois, or its map at the width of the box, has more than 2^26 pixels");
          const std::vector<Taps<T>> columns = cubic_taps<T>(maps.dim(3), across);
          const std::vector<Taps<T>> rows = cubic_taps<T>(maps.dim(2), down);
          const T step_x = width / static_cast<T>(columns.size()),
                  step_y = height / static_cast<T>(rows.size());
          std::vector<T> wide(static_cast<std::size_t>(maps.dim(2)) * columns.size()), line(columns.size());
          for (std::int64_t k = 0; k < maps.dim(1); ++k) {
            Peak<T> best;
            on_best_cpu([&]() __attribute__((always_inline)) {
              best = peak<T>(maps.slice(i).slice(k), columns, rows, wide, line);
            });
            keypoints(i, k, 0) = (static_cast<T>(best.x) + T(0.5)) * step_x + rois(i, 0);
            keypoints(i, k, 1) = (static_cast<T>(best.y) + T(0.5)) * step_y + rois(i, 1);
            keypoints(i, k, 2) = 1;
            scores(i, k) = best.value;
          }
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
