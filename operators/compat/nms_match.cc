#include "../nms_match/nms_match.h"

namespace opbridge::op::nms_match {
namespace {

// mmdeploy's operator: from boxes (image, box, 4) and scores (image, class, box) to rows (image, class, kept,
// suppressed).
OPBRIDGE_OPERATOR(
    "mmdeploy::NMSMatch(Tensor boxes, Tensor scores, Tensor iou_threshold, Tensor score_threshold) -> Tensor")
    .shape([](const Shape& boxes, const Shape& scores, const Shape& iou_threshold,
              const Shape& score_threshold) {
      require_rank(boxes, 3, "boxes");
      require_rank(scores, 3, "scores");
      require_shape(boxes, {boxes[0], boxes[1], 4}, "boxes");
      require_shape(scores, {boxes[0], scores[1], boxes[1]}, "scores");
      for (const Shape& threshold : {iou_threshold, score_threshold}) {
        for (const Dim& size : threshold) require(size == 1, "a threshold must be a single number");
      }
      return Shape{Dim::from_data(), 4};
    })
    .cpu(floating_types, []<class T>(Context&, TensorView<const T> boxes, TensorView<const T> scores,
                                     TensorView<const float> iou_threshold,
                                     TensorView<const float> score_threshold, Output<std::int64_t> out) {
      std::vector<std::int64_t> rows;
      for (std::int64_t image = 0; image < scores.dim(0); ++image) {
        for (std::int64_t label = 0; label < scores.dim(1); ++label) {
          const TensorView<const T> score = scores.slice(image).slice(label);
          match(boxes.slice(image), by_score(score.data(), score.size()), static_cast<T>(iou_threshold[0]),
                [&](std::int64_t kept, const std::vector<std::int64_t>& suppressed) {
                  if (!(score[kept] > static_cast<T>(score_threshold[0]))) return;
                  for (const std::int64_t other : suppressed)
                    rows.insert(rows.end(), {image, label, kept, other});
                });
        }
      }
      const TensorView<std::int64_t> result = out.allocate({static_cast<std::int64_t>(rows.size()) / 4, 4});
      std::copy(rows.begin(), rows.end(), result.begin());
    });

}  // namespace
}  // namespace opbridge::op::nms_match
