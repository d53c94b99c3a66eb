// Samples of an image or a volume at given locations. The arguments and formulas are those of
// aten::grid_sampler.
#pragma once

#include <cmath>
#include <limits>

#include "../common/channels_last.h"
#include "../common/scratch_pool.h"
#include "../common/shapes.h"
#include "../common/weighted_runs.h"

namespace opbridge::op::grid_sample {

enum Interpolation { kLinear, kNearest, kCubic };
enum Padding { kZeros, kBorder, kReflection };

inline constexpr std::size_t kMostRuns = 64;  // for a cubic sample of a volume

struct Options {
  std::int64_t interpolation, padding;
  bool align_corners, volume;

  // Whether samples at NaN or infinite locations are NaN. For images, ATen weights the zeros around them with
  // NaN; for volumes, only with cubic weights.
  bool gives_nan() const {
    return padding == kZeros && (interpolation == kCubic || (interpolation == kLinear && !volume));
  }
};

// The pixels of one axis that a sample reads: `at` is negative for pixels outside, which are zero.
template <class T>
struct AxisTaps {
  std::int64_t at[4];
  T weight[4];
};

template <class T>
OPBRIDGE_INLINE T reflect(T at, std::int64_t size, bool align_corners) {
  const T low = align_corners ? T(0) : T(-0.5), span = static_cast<T>(align_corners ? size - 1 : size);
  if (span == 0) return 0;
  const T distance = std::abs(at - low), rest = std::fmod(distance, span);
  const bool even = std::fmod(std::floor(distance / span), T(2)) == 0;
  return low + (even ? rest : span - rest);
}

// NaN becomes the first pixel of an image and the last one of a volume, as in ATen.
template <class T>
OPBRIDGE_INLINE T into_image(T at, std::int64_t size, const Options& options) {
  if (options.padding == kZeros) return at;
  if (options.padding == kReflection) at = reflect(at, size, options.align_corners);
  const T last = static_cast<T>(size - 1);
  if (std::isnan(at)) return options.volume ? last : T(0);
  return std::clamp(at, T(0), last);
}

template <class T>
OPBRIDGE_INLINE std::int64_t pixel(T at, std::int64_t size) {
  return at >= 0 && at < static_cast<T>(size) ? static_cast<std::int64_t>(at) : -1;
}

// Cubic convolution (Keys, 1981) with a = -0.75.
template <class T>
OPBRIDGE_INLINE T cubic(T distance) {
  constexpr T a = T(-0.75);
  return distance <= 1 ? ((a + 2) * distance - (a + 3)) * distance * distance + 1
                       : ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
}

template <class T>
OPBRIDGE_INLINE AxisTaps<T> taps(T coordinate, std::int64_t size, const Options& options) {
  T at = options.align_corners ? (coordinate + 1) / 2 * static_cast<T>(size - 1)
                               : ((coordinate + 1) * static_cast<T>(size) - 1) / 2;
  AxisTaps<T> result;
  if (options.interpolation == kCubic) {
    const T low = std::floor(at), fraction = at - low;
    for (int i = 0; i < 4; ++i) {
      result.at[i] = pixel(into_image(low + static_cast<T>(i - 1), size, options), size);
      result.weight[i] = cubic(std::abs(fraction - static_cast<T>(i - 1)));
    }
    return result;
  }
  at = into_image(at, size, options);
  const T low = options.interpolation == kNearest ? std::nearbyint(at) : std::floor(at);
  result.at[0] = pixel(low, size);
  result.at[1] = pixel(low + 1, size);
  result.weight[1] = options.interpolation == kNearest ? T(0) : at - low;
  result.weight[0] = 1 - result.weight[1];
  return result;
}

// Finds the runs that the sample at one location reads, and returns their number. Pixels of the image are
// `stride` apart. `coordinates` begins with x, `sizes` ends with the size along x.
template <class T>
OPBRIDGE_INLINE std::size_t find_runs(const T* coordinates, std::span<const std::int64_t> sizes,
                                      std::int64_t stride, const Options& options, WeightedRun<T>* runs) {
  const int per_axis = options.interpolation == kCubic ? 4 : options.interpolation == kLinear ? 2 : 1;
  WeightedRun<T> fewer[kMostRuns / 2];  // the runs over the axes so far
  if (options.gives_nan() && !std::all_of(coordinates, coordinates + sizes.size(),
                                          [](T coordinate) { return std::isfinite(coordinate); })) {
    runs[0] = {0, std::numeric_limits<T>::quiet_NaN()};
    return 1;
  }
  std::size_t count = 1;
  runs[0] = {0, T(1)};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const AxisTaps<T> next = taps(coordinates[sizes.size() - 1 - axis], sizes[axis], options);
    const std::int64_t step = axis + 1 == sizes.size() ? stride : 1;
    std::copy_n(runs, count, fewer);
    std::size_t found = 0;
    for (std::size_t run = 0; run < count; ++run) {
      for (int tap = 0; tap < per_axis; ++tap) {
        if (next.at[tap] < 0) continue;
        runs[found++] = {(fewer[run].at * sizes[axis] + next.at[tap]) * step,
                         fewer[run].weight * next.weight[tap]};
      }
    }
    count = found;
  }
  return count;
}

inline constexpr std::int64_t kLocations = 32;  // their samples stay in the cache until they are written

template <class T>
void sample(Context& context, TensorView<const T> image, TensorView<const T> grid, const Options& options,
            T* pixels, ScratchPool<T>& room, TensorView<T> out) {
  const std::span<const std::int64_t> sizes = image.dims().subspan(1);
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const std::int64_t channels = image.dim(0), width = sizes.back(), locations = grid.size() / rank;
  const std::int64_t rows = image.size() / channels / width, padded = padded_channels<T>(channels);
  const std::int64_t planes[] = {channels, rows, width};
  context.parallel_for(rows, 4, [&](std::int64_t begin, std::int64_t end) {
    to_channels_last(TensorView<const T>(image.data(), planes), begin, end, pixels);
  });
  context.parallel_for(
      (locations + kLocations - 1) / kLocations, 4, [&](std::int64_t begin, std::int64_t end) {
        WeightedRun<T> runs[kMostRuns];
        const typename ScratchPool<T>::Piece piece(room);
        T* const sums = piece.data();
        on_best_cpu([&]() __attribute__((always_inline)) {
          for (std::int64_t block = begin; block < end; ++block) {
            const std::int64_t first = block * kLocations, count = std::min(kLocations, locations - first);
            for (std::int64_t i = 0; i < count; ++i) {
              const std::size_t found =
                  find_runs(grid.data() + (first + i) * rank, sizes, padded, options, runs);
              sum_runs<T>(pixels, std::span(runs, found), padded, sums + i * padded);
            }
            transpose(sums, padded, count, channels, out.data() + first, locations);
          }
        });
      });
}

template <class T>
void forward(Context& context, TensorView<const T> input, TensorView<const T> grid, const Options& options,
             TensorView<T> out) {
  if (out.empty()) return;
  require(!input.empty(), "input has no pixels to sample");
  const std::int64_t size = input.slice(0).size() / input.dim(1), padded = padded_channels<T>(input.dim(1));
  T* const pixels = context.scratch<T>((Dim(size) * padded).number()).data();
  ScratchPool<T> room(context, kLocations * padded);
  for (std::int64_t i = 0; i < input.dim(0); ++i) {
    sample(context, input.slice(i), grid.slice(i), options, pixels, room, out.slice(i));
  }
}

inline constexpr auto kShape = [](const Shape& input, const Shape& grid, std::int64_t interpolation_mode,
                                  std::int64_t padding_mode, bool) {
  require(input.size() == 4 || input.size() == 5,
          "input must have 4 or 5 dimensions, not the shape " + to_string(input));
  const std::size_t rank = input.size() - 2;
  require_rank(grid, rank + 2, "grid");
  require(grid[0] == input[0], "grid must have as many images as input");
  require(grid[rank + 1] == Dim(rank), "the last dimension of grid must hold coordinates");
  require(interpolation_mode >= kLinear && interpolation_mode <= kCubic,
          "interpolation_mode must be 0, 1 or 2");
  require(padding_mode >= kZeros && padding_mode <= kReflection, "padding_mode must be 0, 1 or 2");
  Shape out{input[0], input[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  return out;
};

inline constexpr auto kKernel = []<class T>(Context& context, TensorView<const T> input,
                                            TensorView<const T> grid, std::int64_t interpolation_mode,
                                            std::int64_t padding_mode, bool align_corners,
                                            TensorView<T> out) {
  forward(context, input, grid, {interpolation_mode, padding_mode, align_corners, input.rank() == 5}, out);
};

}  // namespace opbridge::op::grid_sample
