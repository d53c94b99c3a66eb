// Non-maximum suppression of rotated boxes. The arguments are those of mmcv.ops.nms_rotated.
#pragma once

#include "../common/boxes.h"
#include "../common/rotated_boxes.h"

namespace opbridge::op::nms_rotated {

// Kept boxes with circles around them. Most pairs are far apart, and many circles are compared at once.
class KeptRotatedBoxes {
 public:
  // Two boxes overlap if their intersection over union exceeds the threshold and they have the same label, or
  // if `labels` is null.
  KeptRotatedBoxes(const std::vector<RotatedBox>& boxes, const std::int64_t* labels, double iou_threshold)
      : boxes_(boxes), labels_(labels), threshold_(iou_threshold) {}

  std::size_t size() const { return kept_.size(); }

  // Whether the box at `index` overlaps a kept box in [first, last). Kept boxes before `first` may be tested
  // as well.
  OPBRIDGE_INLINE bool overlaps(std::int64_t index, std::size_t first, std::size_t last) const {
    const RotatedBox& box = boxes_[static_cast<std::size_t>(index)];
    const auto x = static_cast<float>(box.x), y = static_cast<float>(box.y);
    const float radius = radius_of(box);
    const double area = box.area();
    for (std::size_t begin = first / kBlock * kBlock; begin < last; begin += kBlock) {
      const Block& block = circles_[begin / kBlock];
      int near[kBlock], any = 0;
      for (std::size_t i = 0; i < kBlock; ++i) {
        const float dx = block.x[i] - x, dy = block.y[i] - y, reach = block.radius[i] + radius;
        // A margin beyond the reach covers rounding in float. Boxes with NaN count as near.
        near[i] = !(dx * dx + dy * dy > reach * reach * 1.001f + 1e-30f);
        any |= near[i];
      }
      if (any == 0) continue;
      for (std::size_t i = 0; i < kBlock && begin + i < last; ++i) {
        const std::int64_t other = kept_[begin + i];
        if (near[i] == 0 || (labels_ && labels_[other] != labels_[index])) continue;
        const RotatedBox& kept = boxes_[static_cast<std::size_t>(other)];
        // The intersection is at most as large as the smaller box.
        if (std::min(area, kept.area()) <= threshold_ * std::max(area, kept.area())) continue;
        if (overlap(box, kept, true) > threshold_) return true;
      }
    }
    return false;
  }

  void add(std::int64_t index) {
    const RotatedBox& box = boxes_[static_cast<std::size_t>(index)];
    const std::size_t i = kept_.size() % kBlock;
    if (i == 0) circles_.emplace_back();
    circles_.back().x[i] = static_cast<float>(box.x);
    circles_.back().y[i] = static_cast<float>(box.y);
    circles_.back().radius[i] = radius_of(box);
    kept_.push_back(index);
  }

 private:
  static constexpr std::size_t kBlock = 32;
  struct Block {
    float x[kBlock] = {}, y[kBlock] = {}, radius[kBlock] = {};
  };

  // The radius of a circle around the box that covers rounding of its center to float.
  static float radius_of(const RotatedBox& box) {
    return static_cast<float>(box.radius() + (std::abs(box.x) + std::abs(box.y)) * 0x1p-23);
  }

  const std::vector<RotatedBox>& boxes_;
  const std::int64_t* labels_;
  double threshold_;
  std::vector<Block> circles_;
  std::vector<std::int64_t> kept_;
};

template <class T>
std::vector<RotatedBox> rotated_boxes(Context& context, TensorView<const T> rows, double direction) {
  std::vector<RotatedBox> boxes(static_cast<std::size_t>(rows.dim(0)));
  context.parallel_for(rows.dim(0), 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      boxes[static_cast<std::size_t>(i)] = RotatedBox::from(rows.slice(i).data(), direction);
    }
  });
  return boxes;
}

}  // namespace opbridge::op::nms_rotated
