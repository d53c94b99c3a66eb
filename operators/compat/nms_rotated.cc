#include "../nms_rotated/nms_rotated.h"

namespace opbridge::op::nms_rotated {
namespace {

// mmdeploy's operator: from boxes (image, box, 5) and scores (image, class, box) to rows (image, class, box)
// of kept boxes.
OPBRIDGE_OPERATOR(
    "mmdeploy::NMSRotated(Tensor boxes, Tensor scores, float iou_threshold, float score_threshold) -> Tensor")
    .shape([](const Shape& boxes, const Shape& scores, double, double) {
      require_rank(boxes, 3, "boxes");
      require_rank(scores, 3, "scores");
      require_shape(boxes, {boxes[0], boxes[1], 5}, "boxes");
      require_shape(scores, {boxes[0], scores[1], boxes[1]}, "scores");
      return Shape{Dim::from_data(), 3};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> boxes, TensorView<const T> scores,
                                     double iou_threshold, double score_threshold, Output<std::int64_t> out) {
      std::vector<std::int64_t> kept;
      for (std::int64_t image = 0; image < scores.dim(0); ++image) {
        const std::vector<RotatedBox> here = rotated_boxes(context, boxes.slice(image), 1);
        for (std::int64_t label = 0; label < scores.dim(1); ++label) {
          const TensorView<const T> row = scores.slice(image).slice(label);
          std::vector<std::int64_t> order = by_score(row.data(), row.size());
          std::erase_if(order, [&](std::int64_t i) { return !(row[i] > static_cast<T>(score_threshold)); });
          suppress(context, order, KeptRotatedBoxes(here, nullptr, iou_threshold), [&](std::int64_t index) {
            kept.insert(kept.end(), {image, label, index});
          });
        }
      }
      const TensorView<std::int64_t> result = out.allocate({static_cast<std::int64_t>(kept.size()) / 3, 3});
      std::copy(kept.begin(), kept.end(), result.begin());
    });

}  // namespace
}  // namespace opbridge::op::nms_rotated
