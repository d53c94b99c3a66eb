// Position-sensitive pooling (Dai et al., "R-FCN", 2016): each bin of each output channel reads its own input
// channel.
#pragma once

#include <numeric>
#include <tuple>

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
  context.parallel_for(rois.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t roi = begin; roi < end; ++roi) {
      const std::int64_t image = image_of(rois, roi, input.dim(0));
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

}  // namespace opbridge::op
