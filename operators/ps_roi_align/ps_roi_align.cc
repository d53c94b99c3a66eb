// Position-sensitive RoIAlign (Li et al., "Light-Head R-CNN", 2017). The arguments are those of
// torchvision::ps_roi_align.
#include "../common/position_sensitive.h"

namespace opbridge::op {
namespace {

template <class T>
Bins<T> bins(T low, T high, double spatial_scale, std::int64_t count, std::int64_t sampling_ratio) {
  const T scale = static_cast<T>(spatial_scale), start = low * scale - T(0.5);
  const T size = (high * scale - T(0.5) - start) / static_cast<T>(count);
  return {start, size, count, samples_per_bin(size, sampling_ratio)};
}

OPBRIDGE_OPERATOR(
    "opbridge::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio=-1) -> (Tensor, Tensor)")
    .shape([](const Shape& input, const Shape& rois, double, const Dim& pooled_height,
              const Dim& pooled_width, std::int64_t sampling_ratio) {
      require_sampling_ratio(sampling_ratio);
      return position_sensitive_shapes(input, rois, pooled_height, pooled_width);
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> rois,
                     double spatial_scale, std::int64_t, std::int64_t, std::int64_t sampling_ratio,
                     TensorView<T> out, TensorView<std::int32_t> channel_mapping) {
           const std::int64_t height = input.dim(2), width = input.dim(3);
           pool_position_sensitive(
               context, input, rois, spatial_scale, out, channel_mapping, [&](TensorView<const T> box) {
                 const Bins<T> y_bins = bins(box[2], box[4], spatial_scale, out.dim(2), sampling_ratio);
                 const Bins<T> x_bins = bins(box[1], box[3], spatial_scale, out.dim(3), sampling_ratio);
                 // torchvision divides by the number of samples. It is 0 for a region without height or
                 // width, and negative for an inverted one, whose result is 0.
                 const bool none =
                     sampling_ratio <= 0 && std::ceil(y_bins.size) * std::ceil(x_bins.size) == 0;
                 const T start = none ? std::numeric_limits<T>::quiet_NaN() : T(0);
                 return [start, width, rows = Taps<T>(y_bins, height), columns = Taps<T>(x_bins, width)](
                            const T* plane, std::int64_t y, std::int64_t x) {
                   T sum = start;
                   for (const auto& row : rows.bin(y)) {
                     for (const auto& column : columns.bin(x)) {
                       sum += row.weight * column.weight * plane[row.at * width + column.at];
                     }
                   }
                   return sum;
                 };
               });
         })
    .backward(floating_types, []<class T>(Context& context, TensorView<const T> grad,
                                          TensorView<const std::int32_t>, TensorView<const T> input,
                                          TensorView<const T> rois, double spatial_scale, std::int64_t,
                                          std::int64_t, std::int64_t sampling_ratio,
                                          std::optional<TensorView<T>> grad_input, NoGradient) {
      if (!grad_input) return;
      const std::int64_t height = input.dim(2), width = input.dim(3);
      add_position_sensitive(context, grad, rois, spatial_scale, *grad_input, [&](TensorView<const T> box) {
        const Taps<T> rows(bins(box[2], box[4], spatial_scale, grad.dim(2), sampling_ratio), height);
        const Taps<T> columns(bins(box[1], box[3], spatial_scale, grad.dim(3), sampling_ratio), width);
        return [=](T* plane, std::int64_t y, std::int64_t x, T of_bin) {
          for (const auto& row : rows.bin(y)) {
            for (const auto& column : columns.bin(x)) {
              plane[row.at * width + column.at] += of_bin * row.weight * column.weight;
            }
          }
        };
      });
    });

}  // namespace
}  // namespace opbridge::op
