// The boxes that non-maximum suppression keeps, each grouped with the boxes that it suppresses. The arguments
// are those of mmcv.ops.nms_match and of mmdeploy's NMSMatch.
#pragma once

#include "../common/boxes.h"

namespace opbridge::op::nms_match {

// Calls visit(kept, suppressed) for each kept box, in `order`. Boxes overlap if the threshold is reached.
template <class T, class Visit>
void match(TensorView<const T> boxes, std::vector<std::int64_t> order, T threshold, const Visit& visit) {
  while (!order.empty()) {
    const std::int64_t kept = order.front();
    const auto overlaps = [&](std::int64_t other) {
      return intersection_over_union(boxes.slice(kept).data(), boxes.slice(other).data()) >= threshold;
    };
    std::vector<std::int64_t> suppressed, left;
    std::partition_copy(order.begin() + 1, order.end(), std::back_inserter(suppressed),
                        std::back_inserter(left), overlaps);
    visit(kept, suppressed);
    order = std::move(left);
  }
}

}  // namespace opbridge::op::nms_match
