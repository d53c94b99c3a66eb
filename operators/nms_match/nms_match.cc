#include "nms_match.h"

namespace opbridge::op::nms_match {
namespace {

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

}  // namespace
}  // namespace opbridge::op::nms_match
