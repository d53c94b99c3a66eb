// RoIAlign (He et al., "Mask R-CNN", 2017). The arguments are those of torchvision::roi_align.
#include <optional>

#include "../common/channels_last.h"
#include "../common/roi.h"
#include "../common/scratch_pool.h"
#include "../common/weighted_runs.h"

namespace opbridge::op {
namespace {

struct Options {
  double spatial_scale;
  std::int64_t height, width;  // in bins
  std::int64_t sampling_ratio;
  bool aligned;
};

template <class T>
struct Region {
  Taps<T> rows, columns;
};

template <class T>
Bins<T> bins(T low, T high, std::int64_t count, const Options& options) {
  const auto scale = static_cast<T>(options.spatial_scale);
  const T half = options.aligned ? T(0.5) : T(0);
  const T start = low * scale - half;
  T length = high * scale - half - start;
  if (!options.aligned) length = std::max(length, T(1));
  const T size = length / static_cast<T>(count);
  return {start, size, count, samples_per_bin(size, options.sampling_ratio)};
}

template <class T>
Region<T> region(TensorView<const T> box, std::int64_t height, std::int64_t width, const Options& options) {
  return {Taps<T>(bins(box[2], box[4], options.height, options), height),
          Taps<T>(bins(box[1], box[3], options.width, options), width)};
}

template <class T>
void pool(const T* pixels, std::int64_t padded, std::int64_t height, std::int64_t width,
          TensorView<const T> box, const Options& options, T* sums, TensorView<T> out) {
  if (!is_finite(box, options.spatial_scale)) {
    std::fill(out.begin(), out.end(), std::numeric_limits<T>::quiet_NaN());
    return;
  }
  const Region<T> area = region(box, height, width, options);
  const std::int64_t bins = options.height * options.width;
  std::vector<WeightedRun<T>> runs;
  on_best_cpu([&]() __attribute__((always_inline)) {
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      runs.clear();
      for (const auto& row : area.rows.bin(bin / options.width)) {
        for (const auto& column : area.columns.bin(bin % options.width)) {
          runs.push_back({(row.at * width + column.at) * padded, row.weight * column.weight});
        }
      }
      sum_runs<T>(pixels, runs, padded, sums);
      for (std::int64_t c = 0; c < out.dim(0); ++c) out[c * bins + bin] = sums[c];
    }
  });
}

template <class T>
void forward(Context& context, TensorView<const T> input, TensorView<const T> rois, const Options& options,
             TensorView<T> out) {
  const std::int64_t height = input.dim(2), width = input.dim(3);
  const std::int64_t padded = padded_channels<T>(input.dim(1));
  const auto regions = by_image(rois, input.dim(0));
  if (out.empty()) return;
  T* const pixels = context.scratch<T>((Dim(height) * width * padded).number()).data();
  ScratchPool<T> room(context, padded);
  for (std::int64_t image = 0; image < input.dim(0); ++image) {
    const auto& here = regions[static_cast<std::size_t>(image)];
    // Only the rows that are read are converted to channels-last.
    std::int64_t first = height, last = 0;
    for (const std::int64_t roi : here) {
      if (!is_finite(rois.slice(roi), options.spatial_scale)) continue;
      const Taps<T> rows(bins(rois(roi, 2), rois(roi, 4), options.height, options), height);
      for (const auto& tap : rows.all()) {
        first = std::min(first, tap.at);
        last = std::max(last, tap.at + 1);
      }
    }
    context.parallel_for(last - first, 4, [&](std::int64_t begin, std::int64_t end) {
      to_channels_last(input.slice(image), first + begin, first + end, pixels);
    });
    context.parallel_for(
        static_cast<std::int64_t>(here.size()), 1, [&](std::int64_t begin, std::int64_t end) {
          const typename ScratchPool<T>::Piece sums(room);
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t roi = here[static_cast<std::size_t>(i)];
            pool(pixels, padded, height, width, rois.slice(roi), options, sums.data(), out.slice(roi));
          }
        });
  }
}

template <class T>
void backward(Context& context, TensorView<const T> grad, TensorView<const T> input, TensorView<const T> rois,
              const Options& options, TensorView<T> grad_input) {
  const std::int64_t channels = input.dim(1), height = input.dim(2), width = input.dim(3);
  const std::int64_t bins = options.height * options.width;
  const auto regions = by_image(rois, input.dim(0));
  // Empty if the result is NaN for any image; its gradient is 0.
  std::vector<std::optional<Region<T>>> areas(static_cast<std::size_t>(rois.dim(0)));
  for (std::int64_t roi = 0; roi < rois.dim(0); ++roi) {
    if (!is_finite(rois.slice(roi), options.spatial_scale)) continue;
    areas[static_cast<std::size_t>(roi)] = region(rois.slice(roi), height, width, options);
  }
  context.parallel_for(input.dim(0) * channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* const plane = grad_input.data() + i * height * width;
      std::fill_n(plane, height * width, T(0));
      for (const std::int64_t roi : regions[static_cast<std::size_t>(i / channels)]) {
        const std::optional<Region<T>>& area = areas[static_cast<std::size_t>(roi)];
        if (!area) continue;
        const T* const from = grad.data() + (roi * channels + i % channels) * bins;
        for (std::int64_t bin = 0; bin < bins; ++bin) {
          for (const auto& row : area->rows.bin(bin / options.width)) {
            for (const auto& column : area->columns.bin(bin % options.width)) {
              plane[row.at * width + column.at] += from[bin] * row.weight * column.weight;
            }
          }
        }
      }
    }
  });
}

OPBRIDGE_OPERATOR(
    "opbridge::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio=-1, bool aligned=False) -> Tensor")
    .shape([](const Shape& input, const Shape& rois, double, const Dim& pooled_height,
              const Dim& pooled_width, std::int64_t sampling_ratio, bool) {
      require_rois(input, rois, 5, pooled_height, pooled_width);
      require_sampling_ratio(sampling_ratio);
      return Shape{rois[0], input[1], pooled_height, pooled_width};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> rois,
                     double spatial_scale, std::int64_t pooled_height, std::int64_t pooled_width,
                     std::int64_t sampling_ratio, bool aligned, TensorView<T> out) {
           forward(context, input, rois,
                   {spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned}, out);
         })
    .backward(floating_types,
              []<class T>(Context& context, TensorView<const T> grad, TensorView<const T> input,
                          TensorView<const T> rois, double spatial_scale, std::int64_t pooled_height,
                          std::int64_t pooled_width, std::int64_t sampling_ratio, bool aligned,
                          std::optional<TensorView<T>> grad_input, NoGradient) {
                if (!grad_input) return;
                backward(context, grad, input, rois,
                         {spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned}, *grad_input);
              });

}  // namespace
}  // namespace opbridge::op
