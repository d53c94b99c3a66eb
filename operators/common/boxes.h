// Axis-aligned boxes (x1, y1, x2, y2), and which of them others suppress.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "best_cpu.h"
#include "shapes.h"

namespace opbridge::op {

// Indices by descending score, of equal ones the first first; NaN before all numbers, as in torch.sort.
template <class T>
std::vector<std::int64_t> by_score(const T* scores, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const T x = scores[a], y = scores[b];
    return x > y || (std::isnan(x) && !std::isnan(y));
  });
  return order;
}

// `offset` is what x2 - x1 lacks of the width of a box.
template <class T>
T intersection_over_union(const T* a, const T* b, T offset = 0) {
  const T width = std::min(a[2], b[2]) - std::max(a[0], b[0]) + offset;
  const T height = std::min(a[3], b[3]) - std::max(a[1], b[1]) + offset;
  const T common = std::max(width, T(0)) * std::max(height, T(0));
  const T area = (a[2] - a[0] + offset) * (a[3] - a[1] + offset);
  const T other = (b[2] - b[0] + offset) * (b[3] - b[1] + offset);
  return common / (area + other - common);
}

// `value > threshold` for a value of type T asks the same as `value > round_down<T>(threshold)`.
template <class T>
T round_down(double threshold) {
  const auto rounded = static_cast<T>(threshold);
  return static_cast<double>(rounded) > threshold
             ? std::nextafter(rounded, -std::numeric_limits<T>::infinity())
             : rounded;
}

// Boxes that were kept, coordinate by coordinate, so that many are compared at once.
template <class T>
class KeptBoxes {
 public:
  // Whether the intersection over union with one of them exceeds `threshold`; a union of 0 gives no overlap.
  OPBRIDGE_INLINE bool overlap(const T* box, T threshold) const {
    const T x1 = box[0], y1 = box[1], x2 = box[2], y2 = box[3], area = (x2 - x1) * (y2 - y1);
    for (std::size_t begin = 0; begin < count_; begin += kBlock) {
      // Room is whole blocks, filled with boxes of NaN, which overlap nothing.
      int found = 0;
      for (std::size_t i = begin; i < begin + kBlock; ++i) {
        const T width = smaller(x2, x2_[i]) - larger(x1, x1_[i]);
        const T height = smaller(y2, y2_[i]) - larger(y1, y1_[i]);
        const T common = larger(width, T(0)) * larger(height, T(0));
        found |= common / (area + area_[i] - common) > threshold;
      }
      if (found != 0) return true;
    }
    return false;
  }

  void add(const T* box) {
    if (count_ == x1_.size()) {
      const std::size_t room = std::max<std::size_t>(2 * count_, kBlock);
      for (auto* values : {&x1_, &y1_, &x2_, &y2_, &area_}) {
        values->resize(room, std::numeric_limits<T>::quiet_NaN());
      }
    }
    x1_[count_] = box[0];
    y1_[count_] = box[1];
    x2_[count_] = box[2];
    y2_[count_] = box[3];
    area_[count_++] = (box[2] - box[0]) * (box[3] - box[1]);
  }

 private:
  static constexpr std::size_t kBlock = 32;

  OPBRIDGE_INLINE static T smaller(T a, T b) { return a < b ? a : b; }
  OPBRIDGE_INLINE static T larger(T a, T b) { return a > b ? a : b; }

  std::vector<T> x1_, y1_, x2_, y2_, area_;
  std::size_t count_ = 0;
};

// Goes through boxes in `order`; calls keep(index) for each that overlaps no kept one by more than the
// threshold.
template <class T, class Keep>
void suppress(const T* boxes, std::span<const std::int64_t> order, double iou_threshold, const Keep& keep) {
  const T threshold = round_down<T>(iou_threshold);
  KeptBoxes<T> kept;
  on_best_cpu([&]() __attribute__((always_inline)) {
    for (const std::int64_t index : order) {
      if (kept.overlap(boxes + 4 * index, threshold)) continue;
      kept.add(boxes + 4 * index);
      keep(index);
    }
  });
}

inline void require_boxes(const Shape& boxes, const Shape& scores, const Dim& columns) {
  require_rank(boxes, 2, "boxes");
  require(boxes[1] == columns,
          "boxes must have " + to_string({columns}) + " columns, not the shape " + to_string(boxes));
  require_shape(scores, {boxes[0]}, "scores");
}

inline void write(const std::vector<std::int64_t>& indices, Output<std::int64_t> out) {
  std::copy(indices.begin(), indices.end(),
            out.allocate({static_cast<std::int64_t>(indices.size())}).begin());
}

}  // namespace opbridge::op
