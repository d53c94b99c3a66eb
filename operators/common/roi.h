// Regions of interest: rows (image, x1, y1, x2, y2), as in torchvision and mmcv.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "shapes.h"

namespace opbridge::op {

inline void require_rois(const Shape& input, const Shape& rois, const Dim& columns, const Dim& pooled_height,
                         const Dim& pooled_width) {
  require_rank(input, 4, "input");
  require_rank(rois, 2, "rois");
  require(rois[1] == columns, [&] {
    return "rois must have " + to_string({columns}) +
           " columns: the index of the image, then the box; not the shape " + to_string(rois);
  });
  require(pooled_height > 0, "the pooled height must be positive");
  require(pooled_width > 0, "the pooled width must be positive");
}

// The index of each region's image. The first region whose image is not one of `images` is an error.
template <class T>
std::vector<std::int64_t> images_of(TensorView<const T> rois, std::int64_t images) {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(rois.dim(0)));
  for (std::int64_t roi = 0; roi < rois.dim(0); ++roi) {
    const T index = rois(roi, 0);
    require(index >= 0 && index < static_cast<T>(images),
            [&] { return "region " + std::to_string(roi) + " is in an image that the input does not have"; });
    result.push_back(static_cast<std::int64_t>(index));
  }
  return result;
}

// The indices of the regions of each image.
template <class T>
std::vector<std::vector<std::int64_t>> by_image(TensorView<const T> rois, std::int64_t images) {
  std::vector<std::vector<std::int64_t>> result(static_cast<std::size_t>(images));
  std::int64_t roi = 0;
  for (const std::int64_t image : images_of(rois, images)) {
    result[static_cast<std::size_t>(image)].push_back(roi++);
  }
  return result;
}

// Whether the region stays finite once scaled. Pooling any other region gives NaN.
template <class T>
bool is_finite(TensorView<const T> box, double spatial_scale) {
  const auto scale = static_cast<T>(spatial_scale);
  return std::all_of(box.begin(), box.end(), [&](T value) {
    return std::abs(value) < std::numeric_limits<T>::max() / 4 &&
           std::abs(value * scale) < std::numeric_limits<T>::max() / 4;
  });
}

// The bins of a region along one axis: their start, their size, and the number of samples in each.
template <class T>
struct Bins {
  T start, size;
  std::int64_t count, samples;
};

// Without a sampling ratio there is about one sample per pixel; an empty region has none.
template <class T>
std::int64_t samples_per_bin(T bin, std::int64_t sampling_ratio) {
  if (sampling_ratio > 0) return sampling_ratio;
  return static_cast<std::int64_t>(std::clamp(std::ceil(bin), T(0), T(1e15)));
}
inline void require_sampling_ratio(std::int64_t sampling_ratio) {
  require(sampling_ratio < (1 << 20), "sampling_ratio must be below 2^20");
}

// The weights of rows (or columns) in the average of bilinear samples along one axis. Samples form a grid and
// bilinear weights are separable, so the average over a bin is the product of two one-dimensional averages.
// Each pixel that samples share is read once.
template <class T>
class Taps {
 public:
  struct Tap {
    std::int64_t at;
    T weight;
  };

  // `size` is that of the image. A sample more than one pixel beyond the border is 0; a nearer one takes the
  // border's value.
  Taps(const Bins<T>& bins, std::int64_t size) {
    ends_.reserve(static_cast<std::size_t>(bins.count));
    for (std::int64_t bin = 0; bin < bins.count; ++bin) {
      if (size > 0) add_bin(bins, bin, size);
      ends_.push_back(taps_.size());
    }
  }

  std::span<const Tap> bin(std::int64_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[static_cast<std::size_t>(i) - 1];
    return std::span(taps_).subspan(begin, ends_[static_cast<std::size_t>(i)] - begin);
  }
  std::span<const Tap> all() const { return taps_; }

 private:
  void add_bin(const Bins<T>& bins, std::int64_t bin, std::int64_t size) {
    const std::size_t begin = taps_.size();
    const T origin = bins.start + static_cast<T>(bin) * bins.size;
    const auto samples = static_cast<T>(bins.samples), share = 1 / samples;
    const auto [first, last] = inside(origin, bins.size / samples, bins.samples, size);
    for (std::int64_t i = first; i < last; ++i) {
      T at = origin + (static_cast<T>(i) + T(0.5)) * bins.size / samples;
      if (!(at >= -1 && at <= static_cast<T>(size))) continue;
      at = std::max(at, T(0));
      const auto low = static_cast<std::int64_t>(at);
      if (low >= size - 1) {
        add(begin, size - 1, share);
      } else {
        const T fraction = at - static_cast<T>(low);
        add(begin, low, (1 - fraction) * share);
        add(begin, low + 1, fraction * share);
      }
    }
  }

  // The range of samples inside the image. Skips the others at once, since a region may be far larger than
  // the image.
  static std::pair<std::int64_t, std::int64_t> inside(double origin, double step, std::int64_t samples,
                                                      std::int64_t size) {
    if (!(step > 0)) return {0, samples};
    const auto most = static_cast<double>(samples);
    const double first = std::clamp((-1 - origin) / step - 2, 0.0, most);
    const double last = std::clamp((static_cast<double>(size) - origin) / step + 2, 0.0, most);
    return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
  }

  // Merges the weights of pixels that neighbouring samples share.
  void add(std::size_t begin, std::int64_t at, T weight) {
    for (std::size_t i = taps_.size(); i > begin && i + 2 > taps_.size(); --i) {
      if (taps_[i - 1].at == at) {
        taps_[i - 1].weight += weight;
        return;
      }
    }
    taps_.push_back({at, weight});
  }

  std::vector<Tap> taps_;
  std::vector<std::size_t> ends_;
};

struct PixelRange {
  std::int64_t begin, end;
  bool empty() const { return end <= begin; }
  std::int64_t size() const { return end - begin; }
};

// Bins of whole pixels along one axis, for a region whose borders are rounded to pixels.
template <class T>
class RoundedBins {
 public:
  // `extra` is 1 if the pixel at the region's end belongs to the region.
  RoundedBins(T low, T high, double spatial_scale, std::int64_t count, std::int64_t extra)
      : start_(to_pixel(std::round(low * static_cast<T>(spatial_scale)))) {
    const std::int64_t end = to_pixel(std::round(high * static_cast<T>(spatial_scale)));
    const std::int64_t length = std::max<std::int64_t>(end - start_ + extra, 1);
    bin_ = static_cast<T>(length) / static_cast<T>(count);
  }

  // The bin, clipped to an image of `size`.
  PixelRange bin(std::int64_t i, std::int64_t size) const {
    const std::int64_t begin = start_ + to_pixel(std::floor(static_cast<T>(i) * bin_));
    const std::int64_t end = start_ + to_pixel(std::ceil(static_cast<T>(i + 1) * bin_));
    return {std::clamp<std::int64_t>(begin, 0, size), std::clamp<std::int64_t>(end, 0, size)};
  }

 private:
  // Clamps distant coordinates to values that are still far outside any image.
  static std::int64_t to_pixel(T value) {
    return static_cast<std::int64_t>(std::clamp(value, T(-1e12), T(1e12)));
  }

  std::int64_t start_;
  T bin_;
};

}  // namespace opbridge::op
