// Non-maximum suppression within each class. The arguments are those of torchvision.ops.batched_nms.
#include "../common/boxes.h"

namespace opbridge::op {
namespace {

// The index in `order`, sorted by class, at which each class begins, and the end.
std::vector<std::size_t> class_borders(std::span<const std::int64_t> order, const std::int64_t* classes) {
  std::vector<std::size_t> borders{0};
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (classes[order[i]] != classes[order[i - 1]]) borders.push_back(i);
  }
  borders.push_back(order.size());
  return borders;
}

OPBRIDGE_OPERATOR(
    "opbridge::batched_nms(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold) -> Tensor")
    .shape([](const Shape& boxes, const Shape& scores, const Shape& idxs, double) {
      require_boxes(boxes, scores, 4);
      require_shape(idxs, {boxes[0]}, "idxs");
      return Shape{Dim::from_data()};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> boxes, TensorView<const T> scores,
                     TensorView<const std::int64_t> idxs, double iou_threshold, Output<std::int64_t> out) {
           const std::vector<std::int64_t> ranking = by_score(scores.data(), scores.size());
           std::vector<std::int64_t> order = ranking;
           std::stable_sort(order.begin(), order.end(),
                            [&](std::int64_t a, std::int64_t b) { return idxs[a] < idxs[b]; });
           const std::vector<std::size_t> borders = class_borders(order, idxs.data());
           std::vector<char> keep(order.size(), 0);
           context.parallel_for(
               static_cast<std::int64_t>(borders.size()) - 1, 1, [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::size_t first = borders[static_cast<std::size_t>(i)];
                   const std::size_t last = borders[static_cast<std::size_t>(i) + 1];
                   suppress_alone(std::span(order).subspan(first, last - first),
                                  KeptBoxes<T>(boxes.data(), iou_threshold),
                                  [&](std::int64_t index) { keep[static_cast<std::size_t>(index)] = 1; });
                 }
               });
           std::vector<std::int64_t> kept;
           std::copy_if(ranking.begin(), ranking.end(), std::back_inserter(kept),
                        [&](std::int64_t index) { return keep[static_cast<std::size_t>(index)] != 0; });
           write(kept, out);
         });

}  // namespace
}  // namespace opbridge::op
