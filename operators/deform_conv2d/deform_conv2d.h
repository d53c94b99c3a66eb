// Deformable convolution, version 1 (Dai et al., "Deformable Convolutional Networks", 2017) and version 2,
// which has a mask (Zhu et al., "Deformable ConvNets v2: More Deformable, Better Results", 2018). The
// arguments are those of torchvision::deform_conv2d.
#pragma once

#include "../common/shapes.h"
#include "kernels.h"

namespace opbridge::op::deform_conv2d {

inline Dim output_size(const Dim& size, const Dim& kernel, std::int64_t stride, std::int64_t pad,
                       std::int64_t dilation) {
  const Dim last = size + Dim(2) * pad - Dim(dilation) * (kernel - 1) - 1;
  require(last >= 0, "the dilated kernel is larger than the padded input");
  return last / stride + 1;
}

struct Options {
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
};

inline Shape shape(const Shape& input, const Shape& weight, const Shape& offset,
                   const std::optional<Shape>& mask, const std::optional<Shape>& bias, const Options& o) {
  require_rank(input, 4, "input");
  require_rank(weight, 4, "weight");
  require(o.stride_h > 0 && o.stride_w > 0 && o.dilation_h > 0 && o.dilation_w > 0 && o.pad_h >= 0 &&
              o.pad_w >= 0,
          "strides and dilations must be positive, padding must not be negative");
  require(o.groups > 0 && o.offset_groups > 0, "groups and offset_groups must be positive");
  const Dim &batch = input[0], &channels = input[1];
  const Dim taps = weight[2] * weight[3];
  require(weight[2] > 0, "the kernel must not be empty");
  require(weight[3] > 0, "the kernel must not be empty");
  require(channels > 0, "input must have channels");
  require(channels == weight[1] * o.groups, "input must have groups * weight.size(1) channels");
  require(weight[0] % o.groups == 0, "the output channels, weight.size(0), must be a multiple of groups");
  require(channels % o.offset_groups == 0, "the channels of input must be a multiple of offset_groups");
  const Dim out_h = output_size(input[2], weight[2], o.stride_h, o.pad_h, o.dilation_h);
  const Dim out_w = output_size(input[3], weight[3], o.stride_w, o.pad_w, o.dilation_w);
  require_shape(offset, {batch, Dim(2) * o.offset_groups * taps, out_h, out_w}, "offset");
  if (mask) require_shape(*mask, {batch, taps * o.offset_groups, out_h, out_w}, "mask");
  if (bias) require_shape(*bias, {weight[0]}, "bias");
  return Shape{batch, weight[0], out_h, out_w};
}

template <class T>
Geometry geometry_of(TensorView<const T> input, TensorView<const T> weight, TensorView<const T> offset,
                     const Options& o) {
  return {input.dim(1),  input.dim(2),  input.dim(3), weight.dim(0),  offset.dim(2), offset.dim(3),
          weight.dim(2), weight.dim(3), o.stride_h,   o.stride_w,     o.pad_h,       o.pad_w,
          o.dilation_h,  o.dilation_w,  o.groups,     o.offset_groups};
}

template <class T>
void run(Context& context, TensorView<const T> input, TensorView<const T> weight, TensorView<const T> offset,
         std::optional<TensorView<const T>> mask, std::optional<TensorView<const T>> bias, const Options& o,
         TensorView<T> out) {
  const Geometry geometry = geometry_of(input, weight, offset, o);
  require(geometry.height < (1 << 30) && geometry.width < (1 << 30), "the sides of input must be below 2^30");
  run<T>(context, geometry, input, weight, offset, mask ? mask->data() : nullptr,
         bias ? bias->data() : nullptr, out);
}

// Shape rule, kernel and gradient of an operator with the arguments of torchvision::deform_conv2d.
inline constexpr auto kShape = [](const Shape& input, const Shape& weight, const Shape& offset,
                                  const std::optional<Shape>& mask, const std::optional<Shape>& bias,
                                  std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h,
                                  std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                                  std::int64_t groups, std::int64_t offset_groups, bool use_mask) {
  return shape(input, weight, offset, use_mask ? mask : std::nullopt, bias,
               {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups});
};

inline constexpr auto kKernel =
    []<class T>(Context& context, TensorView<const T> input, TensorView<const T> weight,
                TensorView<const T> offset, std::optional<TensorView<const T>> mask,
                std::optional<TensorView<const T>> bias, std::int64_t stride_h, std::int64_t stride_w,
                std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                std::int64_t groups, std::int64_t offset_groups, bool use_mask, TensorView<T> out) {
      run<T>(context, input, weight, offset, use_mask ? mask : std::nullopt, bias,
             {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups}, out);
    };

inline constexpr auto kBackward =
    []<class T>(Context& context, TensorView<const T> grad, TensorView<const T> input,
                TensorView<const T> weight, TensorView<const T> offset,
                std::optional<TensorView<const T>> mask, std::optional<TensorView<const T>>,
                std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w,
                std::int64_t dilation_h, std::int64_t dilation_w, std::int64_t groups,
                std::int64_t offset_groups, bool use_mask, std::optional<TensorView<T>> grad_input,
                std::optional<TensorView<T>> grad_weight, std::optional<TensorView<T>> grad_offset,
                std::optional<TensorView<T>> grad_mask, std::optional<TensorView<T>> grad_bias) {
      const auto zeroed = [](std::optional<TensorView<T>>& gradient) -> T* {
        if (!gradient) return nullptr;
        std::fill(gradient->begin(), gradient->end(), T(0));
        return gradient->data();
      };
      const Options options{stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups};
      T* const masks = zeroed(grad_mask);
      run_backward<T>(context, geometry_of(input, weight, offset, options), grad, input, weight, offset,
                      use_mask ? mask : std::nullopt,
                      {zeroed(grad_input), zeroed(grad_weight), zeroed(grad_offset),
                       use_mask ? masks : nullptr, zeroed(grad_bias)});
    };

}  // namespace opbridge::op::deform_conv2d
