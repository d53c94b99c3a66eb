// The boxes that non-maximum suppression keeps, each grouped with the boxes that it suppresses. The arguments
// are those of mmcv.ops.nms_match and of mmdeploy's NMSMatch.
#include "../common/boxes.h"

namespace opbridge::op {
namespace {

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

OPBRIDGE_OPERATOR("opbridge::nms_match(Tensor dets, float iou_threshold) -> (Tensor indices, Tensor counts)")
    .shape([](const Shape& dets, double) {
      require_rank(dets, 2, "dets");
      require(dets[1] == 5,
              "dets must have 5 columns, x1, y1, x2, y2 and the score, not the shape " + to_string(dets));
      return std::tuple{Shape{dets[0]}, Shape{Dim::from_data()}};
    })
    .cpu(floating_types, []<class T>(Context&, TensorView<const T> dets, double iou_threshold,
                                     TensorView<std::int64_t> indices, Output<std::int64_t> counts) {
      std::vector<T> scores;
      for (std::int64_t i = 0; i < dets.dim(0); ++i) scores.push_back(dets(i, 4));
      std::vector<std::int64_t> sizes;
      std::int64_t* next = indices.data();
      match(dets, by_score(scores.data(), dets.dim(0)), static_cast<T>(iou_threshold),
            [&](std::int64_t kept, const std::vector<std::int64_t>& suppressed) {
              *next++ = kept;
              next = std::copy(suppressed.begin(), suppressed.end(), next);
              sizes.push_back(static_cast<std::int64_t>(suppressed.size()) + 1);
            });
      write(sizes, counts);
    });

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
}  // namespace opbridge::op
