#pragma once

#include <cstdint>

namespace opbridge::op::deform_conv2d {

// All sizes of a call; `pixels` counts output pixels.
struct Geometry {
  std::int64_t channels, height, width;              // of the input
  std::int64_t out_channels, out_height, out_width;  // of the output
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  std::int64_t groups, offset_groups;

  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t pixels() const { return out_height * out_width; }
  std::int64_t in_group() const { return channels / groups; }
  std::int64_t out_group() const { return out_channels / groups; }

  // The image is padded with a row or column of zeros on each side and one more row below. The extra row
  // provides four neighbours that are all zero.
  std::int64_t padded_width() const { return width + 2; }
  std::int64_t padded_height() const { return height + 3; }
};

}  // namespace opbridge::op::deform_conv2d
