// RoIAlign of rotated regions (Ma et al., "Arbitrary-Oriented Scene Text Detection via Rotation Proposals",
// 2018, with RoIAlign's samples). The arguments are those of mmcv.ops.roi_align_rotated.
#pragma once

#include "../common/bilinear.h"
#include "../common/channels_last.h"
#include "../common/roi.h"
#include "../common/scratch_pool.h"
#include "../common/weighted_runs.h"

namespace opbridge::op::roi_align_rotated {

struct Options {
  std::int64_t height, width;  // in bins
  double spatial_scale;
  std::int64_t sampling_ratio;
  bool aligned, clockwise;
};

// The bins, relative to the center and before rotation.
template <class T>
struct Region {
  T center_y, center_x, cos, sin;
  Bins<T> rows, columns;

  // Takes a row (image, center x, center y, width, height, angle).
  Region(TensorView<const T> row, const Options& options) {
    const auto scale = static_cast<T>(options.spatial_scale);
    const T half = options.aligned ? T(0.5) : T(0), angle = options.clockwise ? -row[5] : row[5];
    center_x = row[1] * scale - half;
    center_y = row[2] * scale - half;
    cos = std::cos(angle);
    sin = std::sin(angle);
    columns = bins(row[3] * scale, options.width, options);
    rows = bins(row[4] * scale, options.height, options);
    require(static_cast<double>(rows.samples) * static_cast<double>(columns.samples) *
                    static_cast<double>(rows.count * columns.count) <=
                (1 << 26),
            "a region has more than 2^26 samples; set sampling_ratio");
  }

  std::int64_t samples() const { return rows.samples * columns.samples; }  // per bin

  // Calls visit(pixel, weight) for the neighbours of the samples [begin, end) of a bin. The weights are those
  // of the mean over all samples.
  template <class Visit>
  OPBRIDGE_INLINE void visit_samples(std::int64_t bin, std::int64_t begin, std::int64_t end,
                                     std::int64_t height, std::int64_t width, const Visit& visit) const {
    if (begin >= end) return;
    const T top = rows.start + static_cast<T>(bin / columns.count) * rows.size;
    const T left = columns.start + static_cast<T>(bin % columns.count) * columns.size;
    const T share = 1 / static_cast<T>(samples());
    std::int64_t i = begin / columns.samples, j = begin % columns.samples;
    for (std::int64_t sample = begin; sample < end; ++sample) {
      const T y = top + (static_cast<T>(i) + T(0.5)) * rows.size / static_cast<T>(rows.samples);
      const T x = left + (static_cast<T>(j) + T(0.5)) * columns.size / static_cast<T>(columns.samples);
      visit_neighbours_within_border(
          y * cos - x * sin + center_y, y * sin + x * cos + center_x, height,
          width, [&](std::int64_t pixel, T weight) __attribute__((always_inline)) {
            visit(pixel, weight * share);
          });
      if (++j == columns.samples) j = 0, ++i;
    }
  }

 private:
  static Bins<T> bins(T length, std::int64_t count, const Options& options) {
    if (!options.aligned) length = std::max(length, T(1));
    const T size = length / static_cast<T>(count);
    return {-length / 2, size, count, samples_per_bin(size, options.sampling_ratio)};
  }
};

template <class T>
void pool(const T* pixels, std::int64_t padded, TensorView<const T> image, TensorView<const T> row,
          const Options& options, T* sums, TensorView<T> out) {
  if (!is_finite(row, options.spatial_scale)) {
    std::fill(out.begin(), out.end(), std::numeric_limits<T>::quiet_NaN());
    return;
  }
  const Region<T> region(row, options);
  const std::int64_t bins = options.height * options.width;
  // A bin may have millions of samples, so they are summed a few at a time.
  constexpr std::int64_t kSamples = 256;
  WeightedRun<T> runs[4 * kSamples];
  on_best_cpu([&]() __attribute__((always_inline)) {
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      std::int64_t first = 0;
      do {
        std::size_t count = 0;
        const std::int64_t end = std::min(first + kSamples, region.samples());
        region.visit_samples(
            bin, first, end, image.dim(1),
            image.dim(2), [&](std::int64_t pixel, T weight) __attribute__((always_inline)) {
              runs[count++] = {pixel * padded, weight};
            });
        sum_runs<T>(pixels, std::span(runs, count), padded, sums, first > 0);
        first = end;
      } while (first < region.samples());
      for (std::int64_t c = 0; c < out.dim(0); ++c) out[c * bins + bin] = sums[c];
    }
  });
}

template <class T>
void forward(Context& context, TensorView<const T> input, TensorView<const T> rois, const Options& options,
             TensorView<T> out) {
  const std::int64_t padded = padded_channels<T>(input.dim(1));
  const auto regions = by_image(rois, input.dim(0));
  if (out.empty()) return;
  T* const pixels = context.scratch<T>((Dim(input.dim(2)) * input.dim(3) * padded).number()).data();
  ScratchPool<T> room(context, padded);
  for (std::int64_t image = 0; image < input.dim(0); ++image) {
    const auto& here = regions[static_cast<std::size_t>(image)];
    if (here.empty()) continue;
    context.parallel_for(input.dim(2), 4, [&](std::int64_t begin, std::int64_t end) {
      to_channels_last(input.slice(image), begin, end, pixels);
    });
    context.parallel_for(
        static_cast<std::int64_t>(here.size()), 1, [&](std::int64_t begin, std::int64_t end) {
          const typename ScratchPool<T>::Piece sums(room);
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t roi = here[static_cast<std::size_t>(i)];
            pool(pixels, padded, input.slice(image), rois.slice(roi), options, sums.data(), out.slice(roi));
          }
        });
  }
}

// Each part computes the gradients of a few channels.
template <class T>
void backward(Context& context, TensorView<const T> grad, TensorView<const T> rois, const Options& options,
              TensorView<T> grad_input) {
  const std::int64_t channels = grad_input.dim(1), height = grad_input.dim(2), width = grad_input.dim(3);
  const std::int64_t bins = options.height * options.width;
  const auto regions = by_image(rois, grad_input.dim(0));
  std::fill(grad_input.begin(), grad_input.end(), T(0));
  for (std::int64_t image = 0; image < grad_input.dim(0); ++image) {
    T* const planes = grad_input.slice(image).data();
    context.parallel_for(channels, 16, [&](std::int64_t begin, std::int64_t end) {
      for (const std::int64_t roi : regions[static_cast<std::size_t>(image)]) {
        // The result is NaN for any image, so the gradient is 0.
        if (!is_finite(rois.slice(roi), options.spatial_scale)) continue;
        const Region<T> region(rois.slice(roi), options);
        const T* const from = grad.slice(roi).data();
        for (std::int64_t bin = 0; bin < bins; ++bin) {
          region.visit_samples(bin, 0, region.samples(), height, width, [&](std::int64_t pixel, T weight) {
            for (std::int64_t c = begin; c < end; ++c) {
              planes[c * height * width + pixel] += weight * from[c * bins + bin];
            }
          });
        }
      }
    });
  }
}

inline Shape shape(const Shape& input, const Shape& rois, const Dim& height, const Dim& width,
                   std::int64_t sampling_ratio) {
  require_rois(input, rois, 6, height, width);
  require_sampling_ratio(sampling_ratio);
  return Shape{rois[0], input[1], height, width};
}

}  // namespace opbridge::op::roi_align_rotated
