// Position-sensitive pooling (Dai et al., "R-FCN", 2016): each bin of each output channel reads its own input
// channel.
#pragma once

#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "roi.h"

namespace opbridge::op {

// The shape of the pooled regions, twice: the second result maps each element to its input channel.
inline std::tuple<Shape, Shape> position_sensitive_shapes(const Shape& input, const Shape& rois,
                                                          const Dim& pooled_height, const Dim& pooled_width) {
  require_rois(input, rois, 5, pooled_height, pooled_width);
  const Dim bins = pooled_height * pooled_width;
  require(input[1] % bins == 0,
          "the channels of input must be a multiple of pooled_height * pooled_width, not in the shape " +
              to_string(input));
  const Shape out{rois[0], input[1] / bins, pooled_height, pooled_width};
  return {out, out};
}

// For a region, `make(box)` returns the function (plane, y, x) that computes a bin.
template <class T, class Make>
void pool_position_sensitive(Context& context, TensorView<const T> input, TensorView<const T> rois,
                             double spatial_scale, TensorView<T> out,
                             TensorView<std::int32_t> channel_mapping, const Make& make) {
  require(input.dim(1) < std::numeric_limits<std::int32_t>::max(),
          "input must have fewer than 2^31 channels");
  const std::int64_t height = out.dim(2), width = out.dim(3);
  const std::int64_t per_roi = out.dim(1) * height * width;
  const std::vector<std::int64_t> images = images_of(rois, input.dim(0));
  context.parallel_for(rois.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t roi = begin; roi < end; ++roi) {
      const std::int64_t image = images[static_cast<std::size_t>(roi)];
      // Output elements are in the order of their input channels.
      std::iota(channel_mapping.slice(roi).begin(), channel_mapping.slice(roi).end(), 0);
      const TensorView<T> result = out.slice(roi);
      if (!is_finite(rois.slice(roi), spatial_scale)) {
        std::fill(result.begin(), result.end(), std::numeric_limits<T>::quiet_NaN());
        continue;
      }
      const auto bin = make(rois.slice(roi));
      for (std::int64_t i = 0; i < per_roi; ++i) {
        result[i] = bin(input.slice(image).slice(i).data(), i / width % height, i % width);
      }
    }
  });
}

// The gradient of the input. For a region, `make(box)` returns the function (plane, y, x, grad) that adds the
// gradient of a bin to a plane. A region that gives NaN does not contribute.
template <class T, class Make>
void add_position_sensitive(Context& context, TensorView<const T> grad, TensorView<const T> rois,
                            double spatial_scale, TensorView<T> grad_input, const Make& make) {
  const std::int64_t channels = grad_input.dim(1), height = grad.dim(2), width = grad.dim(3);
  const std::int64_t pixels = grad_input.dim(2) * grad_input.dim(3);
  const auto regions = by_image(rois, grad_input.dim(0));
  std::vector<std::optional<decltype(make(rois.slice(0)))>> bins(static_cast<std::size_t>(rois.dim(0)));
  for (std::int64_t roi = 0; roi < rois.dim(0); ++roi) {
    if (!is_finite(rois.slice(roi), spatial_scale)) continue;
    bins[static_cast<std::size_t>(roi)].emplace(make(rois.slice(roi)));
  }
  context.parallel_for(grad_input.dim(0) * channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* const plane = grad_input.data() + i * pixels;
      std::fill_n(plane, pixels, T(0));
      const std::int64_t channel = i % channels;
      for (const std::int64_t roi : regions[static_cast<std::size_t>(i / channels)]) {
        const auto& add = bins[static_cast<std::size_t>(roi)];
        if (add) (*add)(plane, channel / width % height, channel % width, grad[roi * channels + channel]);
      }
    }
  });
}

}  // namespace opbridge::op
