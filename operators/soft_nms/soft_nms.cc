#include "soft_nms.h"

namespace opbridge::op::soft_nms {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::soft_nms(Tensor boxes, Tensor scores, float iou_threshold=0.3, float sigma=0.5, "
    "float min_score=0.001, str method='linear', int offset=0) -> (Tensor, Tensor)")
    .shape([](const Shape& boxes, const Shape& scores, double, double sigma, double, std::string_view method,
              std::int64_t offset) {
      require_boxes(boxes, scores, 4);
      require(method_of(method) != Method::gaussian || sigma > 0, "sigma must be positive");
      require(offset == 0 || offset == 1, "offset must be 0 or 1");
      return std::tuple{Shape{Dim::from_data(), 5}, Shape{Dim::from_data()}};
    })
    .cpu(floating_types,
         []<class T>(Context&, TensorView<const T> boxes, TensorView<const T> scores, double iou_threshold,
                     double sigma, double min_score, std::string_view method, std::int64_t offset,
                     Output<T> dets, Output<std::int64_t> inds) {
           const Method how = method_of(method);
           std::vector<T> score(scores.begin(), scores.end());
           std::vector<std::int64_t> left(score.size()), kept;
           std::iota(left.begin(), left.end(), 0);
           const auto less = [&](std::int64_t a, std::int64_t b) {
             return score[static_cast<std::size_t>(a)] < score[static_cast<std::size_t>(b)];
           };
           while (!left.empty()) {
             const auto best = std::max_element(left.begin(), left.end(), less);
             const std::int64_t chosen = *best;
             kept.push_back(chosen);
             left.erase(best);
             std::erase_if(left, [&](std::int64_t i) {
               T& value = score[static_cast<std::size_t>(i)];
               const T overlap = intersection_over_union(boxes.slice(chosen).data(), boxes.slice(i).data(),
                                                         static_cast<T>(offset));
               value *= decay(overlap, how, static_cast<T>(iou_threshold), static_cast<T>(sigma));
               return value < static_cast<T>(min_score);
             });
           }
           const auto count = static_cast<std::int64_t>(kept.size());
           const TensorView<T> rows = dets.allocate({count, 5});
           for (std::int64_t i = 0; i < count; ++i) {
             const std::int64_t index = kept[static_cast<std::size_t>(i)];
             std::copy_n(boxes.slice(index).data(), 4, rows.slice(i).data());
             rows(i, 4) = score[static_cast<std::size_t>(index)];
           }
           write(kept, inds);
         });

}  // namespace
}  // namespace opbridge::op::soft_nms
