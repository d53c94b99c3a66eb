// Non-maximum suppression. The arguments are those of torchvision::nms.
#include "../common/boxes.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
    .shape([](const Shape& boxes, const Shape& scores, double) {
      require_boxes(boxes, scores, 4);
      return Shape{Dim::from_data()};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> boxes, TensorView<const T> scores,
                                     double iou_threshold, Output<std::int64_t> out) {
      std::vector<std::int64_t> kept;
      suppress(context, by_score(scores.data(), scores.size()), KeptBoxes<T>(boxes.data(), iou_threshold),
               [&](std::int64_t index) { kept.push_back(index); });
      write(kept, out);
    });

}  // namespace
}  // namespace opbridge::op
