// Position-sensitive RoIPool (Dai et al., "R-FCN", 2016). The arguments are those of
// torchvision::ps_roi_pool.
#include "../common/position_sensitive.h"

namespace opbridge::op {
namespace {

// The mean of rows and columns of a plane; 0 if there are none.
template <class T>
T mean(const T* plane, std::int64_t width, PixelRange rows, PixelRange columns) {
  if (rows.empty() || columns.empty()) return 0;
  T sum = 0;
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    for (std::int64_t x = columns.begin; x < columns.end; ++x) sum += plane[y * width + x];
  }
  return sum / static_cast<T>(rows.size() * columns.size());
}

OPBRIDGE_OPERATOR(
    "opbridge::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)")
    .shape([](const Shape& input, const Shape& rois, double, const Dim& pooled_height,
              const Dim& pooled_width) {
      return position_sensitive_shapes(input, rois, pooled_height, pooled_width);
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> rois,
                     double spatial_scale, std::int64_t, std::int64_t, TensorView<T> out,
                     TensorView<std::int32_t> channel_mapping) {
           // The last row and column belong to no bin, as in torchvision.
           const std::int64_t width = input.dim(3);
           const std::int64_t last_row = std::max<std::int64_t>(input.dim(2) - 1, 0);
           const std::int64_t last_column = std::max<std::int64_t>(width - 1, 0);
           pool_position_sensitive(
               context, input, rois, spatial_scale, out, channel_mapping, [&](TensorView<const T> box) {
                 const RoundedBins<T> rows(box[2], box[4], spatial_scale, out.dim(2), 0);
                 const RoundedBins<T> columns(box[1], box[3], spatial_scale, out.dim(3), 0);
                 return [=](const T* plane, std::int64_t y, std::int64_t x) {
                   return mean(plane, width, rows.bin(y, last_row), columns.bin(x, last_column));
                 };
               });
         })
    .backward(floating_types, []<class T>(Context& context, TensorView<const T> grad,
                                          TensorView<const std::int32_t>, TensorView<const T> input,
                                          TensorView<const T> rois, double spatial_scale, std::int64_t,
                                          std::int64_t, std::optional<TensorView<T>> grad_input, NoGradient) {
      if (!grad_input) return;
      const std::int64_t height = input.dim(2), width = input.dim(3);
      add_position_sensitive(context, grad, rois, spatial_scale, *grad_input, [&](TensorView<const T> box) {
        const RoundedBins<T> y_bins(box[2], box[4], spatial_scale, grad.dim(2), 0);
        const RoundedBins<T> x_bins(box[1], box[3], spatial_scale, grad.dim(3), 0);
        return [=](T* plane, std::int64_t y, std::int64_t x, T of_bin) {
          // torchvision's gradient, unlike its result, counts the last row and column of the image.
          const PixelRange rows = y_bins.bin(y, height), columns = x_bins.bin(x, width);
          if (rows.empty() || columns.empty()) return;
          const T share = of_bin / static_cast<T>(rows.size() * columns.size());
          for (std::int64_t at = rows.begin; at < rows.end; ++at) {
            for (std::int64_t i = columns.begin; i < columns.end; ++i) plane[at * width + i] += share;
          }
        };
      });
    });

}  // namespace
}  // namespace opbridge::op
