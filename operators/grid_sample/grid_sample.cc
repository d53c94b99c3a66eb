// Samples of an image, or of a volume, at given places. The arguments are those of aten::grid_sampler, whose
// formulas these are.
#include <cmath>
#include <limits>

#include "../common/best_cpu.h"
#include "../common/shapes.h"

namespace opbridge::op {
namespace {

enum Interpolation { kLinear, kNearest, kCubic };
enum Padding { kZeros, kBorder, kReflection };

struct Options {
  std::int64_t interpolation, padding;
  bool align_corners;
};

// The pixels of one axis that a sample reads: `at` is negative for those outside, which are zero.
template <class T>
struct AxisTaps {
  std::int64_t at[4];
  T weight[4];
};

template <class T>
T reflect(T at, std::int64_t size, bool align_corners) {
  const T low = align_corners ? T(0) : T(-0.5), span = static_cast<T>(align_corners ? size - 1 : size);
  if (span == 0) return 0;
  const T distance = std::abs(at - low), rest = std::fmod(distance, span);
  const bool even = std::fmod(std::floor(distance / span), T(2)) == 0;
  return low + (even ? rest : span - rest);
}

// NaN becomes the first pixel.
template <class T>
T into_image(T at, std::int64_t size, const Options& options) {
  if (options.padding == kZeros) return at;
  if (options.padding == kReflection) at = reflect(at, size, options.align_corners);
  return at > 0 ? std::min(at, static_cast<T>(size - 1)) : T(0);
}

template <class T>
std::int64_t pixel(T at, std::int64_t size) {
  return at >= 0 && at < static_cast<T>(size) ? static_cast<std::int64_t>(at) : -1;
}

// Cubic convolution (Keys, 1981) with a = -0.75.
template <class T>
T cubic(T distance) {
  constexpr T a = T(-0.75);
  return distance <= 1 ? ((a + 2) * distance - (a + 3)) * distance * distance + 1
                       : ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
}

template <class T>
AxisTaps<T> taps(T coordinate, std::int64_t size, const Options& options) {
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

// A few places: for each tap, where in a plane it reads, or -1, and its weight.
template <class T>
struct Block {
  static constexpr std::int64_t kPlaces = 64, kTaps = 16;
  std::int64_t at[kTaps][kPlaces];
  T weight[kTaps][kPlaces];
};

// `coordinates` are those of `count` places, x first; `sizes` of the image, x last. Gives the number of taps.
template <class T>
std::int64_t fill(Block<T>& block, const T* coordinates, std::int64_t count,
                  std::span<const std::int64_t> sizes, const Options& options) {
  const std::int64_t per_axis = options.interpolation == kCubic    ? 4
                                : options.interpolation == kLinear ? 2
                                                                   : 1;
  const auto rank = static_cast<std::int64_t>(sizes.size());
  std::int64_t taps_of_place = 1;
  for (std::int64_t axis = 0; axis < rank; ++axis) taps_of_place *= per_axis;
  for (std::int64_t place = 0; place < count; ++place) {
    AxisTaps<T> axes[3];
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      axes[axis] =
          taps(coordinates[place * rank + rank - 1 - axis], sizes[static_cast<std::size_t>(axis)], options);
    }
    for (std::int64_t tap = 0; tap < taps_of_place; ++tap) {
      std::int64_t at = 0, rest = tap;
      T weight = 1;
      for (std::int64_t axis = 0; axis < rank; ++axis, rest /= per_axis) {
        const std::int64_t i = axes[axis].at[rest % per_axis];
        at = at < 0 || i < 0 ? -1 : at * sizes[static_cast<std::size_t>(axis)] + i;
        weight *= axes[axis].weight[rest % per_axis];
      }
      block.at[tap][place] = at;
      block.weight[tap][place] = weight;
    }
  }
  return taps_of_place;
}

template <class T>
void forward(Context& context, TensorView<const T> input, TensorView<const T> grid, const Options& options,
             TensorView<T> out) {
  if (out.empty()) return;
  const std::span<const std::int64_t> sizes = input.dims().subspan(2);
  std::int64_t pixels = 1, places = 1;
  for (const std::int64_t size : sizes) pixels *= size;
  for (const std::int64_t size : out.dims().subspan(2)) places *= size;
  require(pixels > 0, "input has no pixels to sample");
  const std::int64_t channels = input.dim(1), rank = static_cast<std::int64_t>(sizes.size());
  const std::int64_t blocks = (places + Block<T>::kPlaces - 1) / Block<T>::kPlaces;
  context.parallel_for(input.dim(0) * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    Block<T> block;
    on_best_cpu([&]() __attribute__((always_inline)) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t image = i / blocks, first = i % blocks * Block<T>::kPlaces;
        const std::int64_t count = std::min(Block<T>::kPlaces, places - first);
        const std::int64_t taps_of_place =
            fill(block, grid.data() + (image * places + first) * rank, count, sizes, options);
        for (std::int64_t c = 0; c < channels; ++c) {
          const T* const plane = input.data() + (image * channels + c) * pixels;
          T* const to = out.data() + (image * channels + c) * places + first;
          T sums[Block<T>::kPlaces] = {};
          for (std::int64_t tap = 0; tap < taps_of_place; ++tap) {
            for (std::int64_t place = 0; place < count; ++place) {
              const std::int64_t at = block.at[tap][place];
              sums[place] += at < 0 ? T(0) : block.weight[tap][place] * plane[at];
            }
          }
          std::copy_n(sums, count, to);
        }
      }
    });
  });
}

constexpr auto kShape = [](const Shape& input, const Shape& grid, std::int64_t interpolation_mode,
                           std::int64_t padding_mode, bool) {
  require(input.size() == 4 || input.size() == 5,
          "input must have 4 or 5 dimensions, not the shape " + to_string(input));
  const std::size_t rank = input.size() - 2;
  require_rank(grid, rank + 2, "grid");
  require(grid[0] == input[0], "grid must have as many images as input");
  require(grid[rank + 1] == Dim(rank), "the last dimension of grid must be the coordinates of a place");
  require(interpolation_mode >= kLinear && interpolation_mode <= kCubic,
          "interpolation_mode must be 0, 1 or 2");
  require(interpolation_mode != kCubic || rank == 2, "interpolation_mode 2, cubic, is of images only");
  require(padding_mode >= kZeros && padding_mode <= kReflection, "padding_mode must be 0, 1 or 2");
  Shape out{input[0], input[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  return out;
};

constexpr auto kKernel = []<class T>(Context& context, TensorView<const T> input, TensorView<const T> grid,
                                     std::int64_t interpolation_mode, std::int64_t padding_mode,
                                     bool align_corners, TensorView<T> out) {
  forward(context, input, grid, {interpolation_mode, padding_mode, align_corners}, out);
};

OPBRIDGE_OPERATOR(
    "opbridge::grid_sample(Tensor input, Tensor grid, int interpolation_mode=0, int padding_mode=0, "
    "bool align_corners=False) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

// The name that mmdeploy gives it in ONNX.
OPBRIDGE_OPERATOR(
    "mmdeploy::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

}  // namespace
}  // namespace opbridge::op
