// RoIPool (Girshick, "Fast R-CNN", 2015). The arguments are those of torchvision::roi_pool.
#include "../common/roi.h"

namespace opbridge::op {
namespace {

// The maximum over rows and columns of a plane and its index; 0 at -1 if there are none. NaN is never the
// maximum.
template <class T>
std::pair<T, std::int32_t> largest(const T* plane, std::int64_t width, PixelRange rows, PixelRange columns) {
  if (rows.empty() || columns.empty()) return {T(0), -1};
  T most = std::numeric_limits<T>::lowest();
  std::int64_t at = -1;
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    for (std::int64_t x = columns.begin; x < columns.end; ++x) {
      if (plane[y * width + x] > most) {
        most = plane[y * width + x];
        at = y * width + x;
      }
    }
  }
  return {most, static_cast<std::int32_t>(at)};
}

template <class T>
void pool(TensorView<const T> image, TensorView<const T> box, double spatial_scale, TensorView<T> out,
          TensorView<std::int32_t> argmax) {
  if (!is_finite(box, spatial_scale)) {
    std::fill(out.begin(), out.end(), std::numeric_limits<T>::quiet_NaN());
    std::fill(argmax.begin(), argmax.end(), -1);
    return;
  }
  const std::int64_t height = image.dim(1), width = image.dim(2);
  const RoundedBins<T> rows(box[2], box[4], spatial_scale, out.dim(1), 1);
  const RoundedBins<T> columns(box[1], box[3], spatial_scale, out.dim(2), 1);
  std::int64_t i = 0;
  for (std::int64_t c = 0; c < image.dim(0); ++c) {
    const T* const plane = image.slice(c).data();
    for (std::int64_t y = 0; y < out.dim(1); ++y) {
      for (std::int64_t x = 0; x < out.dim(2); ++x, ++i) {
        std::tie(out[i], argmax[i]) = largest(plane, width, rows.bin(y, height), columns.bin(x, width));
      }
    }
  }
}

OPBRIDGE_OPERATOR(
    "opbridge::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)")
    .shape([](const Shape& input, const Shape& rois, double, const Dim& pooled_height,
              const Dim& pooled_width) {
      require_rois(input, rois, 5, pooled_height, pooled_width);
      const Shape out{rois[0], input[1], pooled_height, pooled_width};
      return std::tuple{out, out};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> input, TensorView<const T> rois,
                                     double spatial_scale, std::int64_t, std::int64_t, TensorView<T> out,
                                     TensorView<std::int32_t> argmax) {
      require(input.dim(2) * input.dim(3) < std::numeric_limits<std::int32_t>::max(),
              "an image must have fewer than 2^31 pixels");
      const std::vector<std::int64_t> images = images_of(rois, input.dim(0));
      context.parallel_for(rois.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t roi = begin; roi < end; ++roi) {
          const std::int64_t image = images[static_cast<std::size_t>(roi)];
          pool(input.slice(image), rois.slice(roi), spatial_scale, out.slice(roi), argmax.slice(roi));
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
