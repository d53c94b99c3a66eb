// Axis-aligned boxes (x1, y1, x2, y2) and their suppression by overlapping ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "best_cpu.h"
#include "by_score.h"
#include "shapes.h"

namespace opbridge::op {

// A box has the width x2 - x1 + offset.
template <class T>
T intersection_over_union(const T* a, const T* b, T offset = 0) {
  const T width = std::min(a[2], b[2]) - std::max(a[0], b[0]) + offset;
  const T height = std::min(a[3], b[3]) - std::max(a[1], b[1]) + offset;
  const T common = std::max(width, T(0)) * std::max(height, T(0));
  const T area = (a[2] - a[0] + offset) * (a[3] - a[1] + offset);
  const T other = (b[2] - b[0] + offset) * (b[3] - b[1] + offset);
  return common / (area + other - common);
}

// `value > threshold` is equivalent to `value > round_down<T>(threshold)` for a value of type T.
template <class T>
T round_down(double threshold) {
  const auto rounded = static_cast<T>(threshold);
  return static_cast<double>(rounded) > threshold
             ? std::nextafter(rounded, -std::numeric_limits<T>::infinity())
             : rounded;
}

// Kept boxes, stored by coordinate, so that many are compared at once.
template <class T>
class KeptBoxes {
 public:
  // Boxes overlap if their intersection over union exceeds the threshold; never if the union is 0.
  KeptBoxes(const T* boxes, double iou_threshold) : boxes_(boxes), threshold_(round_down<T>(iou_threshold)) {}

  std::size_t size() const { return count_; }

  // Whether the box at `index` overlaps a kept box in [first, last). Kept boxes before `first` may be tested
  // as well.
  OPBRIDGE_INLINE bool overlaps(std::int64_t index, std::size_t first, std::size_t last) const {
    const T* box = boxes_ + 4 * index;
    const T x1 = box[0], y1 = box[1], x2 = box[2], y2 = box[3], area = (x2 - x1) * (y2 - y1);
    const auto overlaps_kept = [&](std::size_t i) __attribute__((always_inline)) {
      const T width = smaller(x2, x2_[i]) - larger(x1, x1_[i]);
      const T height = smaller(y2, y2_[i]) - larger(y1, y1_[i]);
      const T common = larger(width, T(0)) * larger(height, T(0));
      return common / (area + area_[i] - common) > threshold_;
    };
    std::size_t begin = first / kBlock * kBlock;
    for (; begin + kBlock <= last; begin += kBlock) {
      int found = 0;
      for (std::size_t i = begin; i < begin + kBlock; ++i) found |= overlaps_kept(i);
      if (found != 0) return true;
    }
    if (begin >= last) return false;
    int found = 0;  // capacity is a multiple of a block
    for (std::size_t i = begin; i < begin + kBlock; ++i) found |= (i < last) & overlaps_kept(i);
    return found != 0;
  }

  void add(std::int64_t index) {
    if (count_ == x1_.size()) {
      const std::size_t room = std::max<std::size_t>(2 * count_, kBlock);
      for (auto* values : {&x1_, &y1_, &x2_, &y2_, &area_}) values->resize(room);
    }
    const T* box = boxes_ + 4 * index;
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

  const T* boxes_;
  T threshold_;
  std::vector<T> x1_, y1_, x2_, y2_, area_;
  std::size_t count_ = 0;
};

// Visits boxes in `order` and calls keep(index) for each one that overlaps no box kept before. Works in
// chunks: for_parts(count, grain, f), which acts like Context::parallel_for, compares a chunk with the boxes
// kept before it, then the remaining boxes of the chunk with each other. Boxes that overlap another one of
// the chunk are then tested again, in sequence.
template <class Kept, class Keep, class ForParts>
void suppress(std::span<const std::int64_t> order, Kept kept, const Keep& keep, const ForParts& for_parts) {
  constexpr std::size_t kChunk = 512;
  constexpr std::int64_t kLeastComparisons = 1 << 15;  // the least for a part
  const Kept none = kept;
  std::vector<char> overlaps(std::min(kChunk, order.size()));
  std::vector<std::int64_t> left;
  const auto compare = [&](std::size_t count, std::size_t others, const auto& overlap) {
    const std::int64_t grain = kLeastComparisons / static_cast<std::int64_t>(others + 1) + 1;
    for_parts(static_cast<std::int64_t>(count), grain, [&](std::int64_t begin, std::int64_t end) {
      on_best_cpu([&]() __attribute__((always_inline)) {
        for (std::int64_t i = begin; i < end; ++i) overlap(static_cast<std::size_t>(i));
      });
    });
  };
  while (!order.empty()) {
    const std::span<const std::int64_t> chunk = order.first(std::min(kChunk, order.size()));
    order = order.subspan(chunk.size());
    const std::size_t before = kept.size();
    compare(
        chunk.size(), before, [&](std::size_t i) __attribute__((always_inline)) {
          overlaps[i] = kept.overlaps(chunk[i], 0, before);
        });

    left.clear();
    Kept rivals = none;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (overlaps[i]) continue;
      left.push_back(chunk[i]);
      rivals.add(chunk[i]);
    }
    // Pairs an early box with a late one, which has more boxes before it, to balance the parts.
    compare(
        left.size() / 2 + left.size() % 2, left.size(), [&](std::size_t i) __attribute__((always_inline)) {
          for (const std::size_t k : {i, left.size() - 1 - i}) overlaps[k] = rivals.overlaps(left[k], 0, k);
        });
    on_best_cpu([&]() __attribute__((always_inline)) {
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (overlaps[i] && kept.overlaps(left[i], before, kept.size())) continue;
        kept.add(left[i]);
        keep(left[i]);
      }
    });
  }
}

template <class Kept, class Keep>
void suppress(Context& context, std::span<const std::int64_t> order, Kept kept, const Keep& keep) {
  suppress(order, std::move(kept), keep, [&](std::int64_t count, std::int64_t grain, const auto& f) {
    context.parallel_for(count, grain, f);
  });
}

// For callers that parallelize over classes or images.
template <class Kept, class Keep>
void suppress_alone(std::span<const std::int64_t> order, Kept kept, const Keep& keep) {
  suppress(order, std::move(kept), keep,
           [](std::int64_t count, std::int64_t, const auto& f) { f(std::int64_t{0}, count); });
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
