// The gradients of deform_conv2d (Dai et al. 2017, appendix A; that of the mask, Zhu et al. 2018), image by
// image, from the matrix of its samples. At integer coordinates, the derivative of a sample is the one-sided
// derivative from the right.
#pragma once

#include <Eigen/Core>
#include <utility>

#include "../common/bilinear.h"
#include "kernels.h"
#include "tile.h"

namespace opbridge::op::deform_conv2d {

// The gradient of one image, with pointers to its part of each tensor.
template <class T>
class ImageGradient {
 public:
  ImageGradient(const Geometry& geometry, const T* input, const T* weight, const T* offset, const T* mask,
                const T* grad, const Gradients<T>& gradients)
      : g_(geometry),
        input_(input),
        weight_(weight),
        offset_(offset),
        mask_(mask),
        grad_(grad),
        out_(gradients) {}

  // `masked` and `grads` are scratch memory for matrices [channel and tap][pixel], where needed: the samples
  // times the mask, and the gradients of these.
  void add(op::Context& context, T* masked, T* grads) const {
    const std::int64_t columns = g_.in_group() * g_.taps();
    if (out_.needs_gradient_of_samples()) {
      over_blocks(context, columns, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
        matrix(grads, columns, group).middleRows(first, count).noalias() =
            weights(weight_, group).middleCols(first, count).transpose() *
            matrix(grad_, g_.out_group(), group);
      });
    }
    if (out_.needs_samples()) {
      context.parallel_for(g_.channels, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) add_channel(c, masked, grads);
      });
    }
    if (out_.weight != nullptr) {
      over_blocks(context, columns, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
        weights(out_.weight, group).middleCols(first, count).noalias() +=
            matrix(grad_, g_.out_group(), group) *
            matrix(std::as_const(masked), columns, group).middleRows(first, count).transpose();
      });
    }
    if (out_.offset != nullptr || out_.mask != nullptr) {
      context.parallel_for(g_.offset_groups * g_.taps(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t plane = begin; plane < end; ++plane) set_plane(plane, grads);
      });
    }
    for (std::int64_t o = 0; out_.bias != nullptr && o < g_.out_channels; ++o) {
      for (std::int64_t p = 0; p < g_.pixels(); ++p) out_.bias[o] += grad_[o * g_.pixels() + p];
    }
  }

 private:
  template <class U>
  using Matrix = Eigen::Map<std::conditional_t<
      std::is_const_v<U>,
      const Eigen::Matrix<std::remove_const_t<U>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
      Eigen::Matrix<U, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>>;

  // The rows of one group as a matrix.
  template <class U>
  Matrix<U> matrix(U* data, std::int64_t rows, std::int64_t group) const {
    return {data + group * rows * g_.pixels(), rows, g_.pixels()};
  }
  template <class U>
  Matrix<U> weights(U* data, std::int64_t group) const {
    const std::int64_t columns = g_.in_group() * g_.taps();
    return {data + group * g_.out_group() * columns, g_.out_group(), columns};
  }

  // Calls work(group, first, count) for blocks of [0, size), in each group.
  template <class Work>
  void over_blocks(op::Context& context, std::int64_t size, const Work& work) const {
    constexpr std::int64_t kBlock = 96;
    const std::int64_t blocks = (size + kBlock - 1) / kBlock;
    context.parallel_for(g_.groups * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % blocks * kBlock;
        work(i / blocks, first, std::min(kBlock, size - first));
      }
    });
  }

  // Calls visit(output pixel, y, x, mask) for every sample of one tap in the channels of an offset group.
  template <class Visit>
  void for_each_point(std::int64_t plane, const Visit& visit) const {
    const std::int64_t tap = plane % g_.taps(), pixels = g_.pixels();
    const std::int64_t tap_y = tap / g_.kernel_w * g_.dilation_h - g_.pad_h;
    const std::int64_t tap_x = tap % g_.kernel_w * g_.dilation_w - g_.pad_w;
    const T* const offset_y = offset_ + plane * 2 * pixels;
    const T* const offset_x = offset_y + pixels;
    for (std::int64_t p = 0; p < pixels; ++p) {
      const T y = static_cast<T>(p / g_.out_width * g_.stride_h + tap_y) + offset_y[p];
      const T x = static_cast<T>(p % g_.out_width * g_.stride_w + tap_x) + offset_x[p];
      visit(p, y, x, mask_ == nullptr ? T(1) : mask_[plane * pixels + p]);
    }
  }

  // Computes a channel's rows of `masked` and adds up its gradient.
  void add_channel(std::int64_t channel, T* masked, const T* grads) const {
    const std::int64_t image = channel * g_.height * g_.width;
    const std::int64_t offset_group = channel / (g_.channels / g_.offset_groups);
    for (std::int64_t tap = 0; tap < g_.taps(); ++tap) {
      const std::int64_t row = (channel * g_.taps() + tap) * g_.pixels();
      for_each_point(offset_group * g_.taps() + tap, [&](std::int64_t p, T y, T x, T mask) {
        T sample = 0;
        op::visit_neighbours(y, x, g_.height, g_.width, [&](std::int64_t at, T weight, T, T) {
          sample += weight * input_[image + at];
          if (out_.input != nullptr) out_.input[image + at] += weight * mask * grads[row + p];
        });
        masked[row + p] = sample * mask;
      });
    }
  }

  // Computes the gradients of one tap's offsets and mask.
  void set_plane(std::int64_t plane, const T* grads) const {
    const std::int64_t tap = plane % g_.taps(), pixels = g_.pixels();
    const std::int64_t count = g_.channels / g_.offset_groups, first = plane / g_.taps() * count;
    for_each_point(plane, [&](std::int64_t p, T y, T x, T mask) {
      T along_y = 0, along_x = 0, along_mask = 0;
      const auto add = [&](std::int64_t at, T weight, T weight_y, T weight_x) {
        T sum = 0;
        for (std::int64_t c = first; c < first + count; ++c) {
          sum += input_[c * g_.height * g_.width + at] * grads[(c * g_.taps() + tap) * pixels + p];
        }
        along_y += weight_y * sum;
        along_x += weight_x * sum;
        along_mask += weight * sum;
      };
      // At -1 the sample is 0, but its derivative is not.
      if (y == -1 || x == -1) {
        if (y >= -1 && y < static_cast<T>(g_.height) && x >= -1 && x < static_cast<T>(g_.width)) {
          op::visit_neighbours_right_of(y, x, g_.height, g_.width, add);
        }
      } else {
        op::visit_neighbours(y, x, g_.height, g_.width, add);
      }
      if (out_.offset != nullptr) {
        out_.offset[plane * 2 * pixels + p] = along_y * mask;
        out_.offset[(plane * 2 + 1) * pixels + p] = along_x * mask;
      }
      if (out_.mask != nullptr) out_.mask[plane * pixels + p] = along_mask;
    });
  }

  const Geometry& g_;
  const T *input_, *weight_, *offset_, *mask_, *grad_;
  Gradients<T> out_;
};

}  // namespace opbridge::op::deform_conv2d
