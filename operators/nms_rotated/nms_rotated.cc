#include "nms_rotated.h"

namespace opbridge::op::nms_rotated {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::nms_rotated(Tensor dets, Tensor scores, float iou_threshold, Tensor? labels=None, "
    "bool clockwise=True) -> Tensor")
    .shape([](const Shape& dets, const Shape& scores, double, const std::optional<Shape>& labels, bool) {
      require_boxes(dets, scores, 5);
      if (labels) require_shape(*labels, {dets[0]}, "labels");
      return Shape{Dim::from_data()};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> dets, TensorView<const T> scores,
                     double iou_threshold, std::optional<TensorView<const std::int64_t>> labels,
                     bool clockwise, Output<std::int64_t> out) {
           std::vector<std::int64_t> kept;
           const std::vector<RotatedBox> boxes = rotated_boxes(context, dets, clockwise ? 1 : -1);
           suppress(context, by_score(scores.data(), scores.size()),
                    KeptRotatedBoxes(boxes, labels ? labels->data() : nullptr, iou_threshold),
                    [&](std::int64_t index) { kept.push_back(index); });
           write(kept, out);
         });

}  // namespace
}  // namespace opbridge::op::nms_rotated
