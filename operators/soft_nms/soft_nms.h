// Soft-NMS (Bodla et al., "Soft-NMS: Improving Object Detection With One Line of Code", 2017). The arguments
// are those of mmcv.ops.soft_nms.
#pragma once

#include "../common/boxes.h"

namespace opbridge::op::soft_nms {

enum class Method { naive, linear, gaussian };

inline Method method_of(std::string_view name) {
  if (name == "naive") return Method::naive;
  if (name == "linear") return Method::linear;
  require(name == "gaussian",
          "method must be 'naive', 'linear' or 'gaussian', not '" + std::string(name) + "'");
  return Method::gaussian;
}

template <class T>
T decay(T overlap, Method method, T threshold, T sigma) {
  if (method == Method::gaussian) return std::exp(-overlap * overlap / sigma);
  if (!(overlap >= threshold)) return 1;
  return method == Method::linear ? 1 - overlap : 0;
}

inline std::tuple<Shape, Shape> shape(const Shape& boxes, const Shape& scores, double sigma, Method method,
                                      std::int64_t offset) {
  require_boxes(boxes, scores, 4);
  require(method != Method::gaussian || sigma > 0, "sigma must be positive");
  require(offset == 0 || offset == 1, "offset must be 0 or 1");
  return {Shape{Dim::from_data(), 5}, Shape{Dim::from_data()}};
}

// `dets` are the kept boxes with their final scores, `inds` their indices.
template <class T>
void run(TensorView<const T> boxes, TensorView<const T> scores, double iou_threshold, double sigma,
         double min_score, Method method, std::int64_t offset, const Output<T>& dets,
         const Output<std::int64_t>& inds) {
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
      const T overlap =
          intersection_over_union(boxes.slice(chosen).data(), boxes.slice(i).data(), static_cast<T>(offset));
      value *= decay(overlap, method, static_cast<T>(iou_threshold), static_cast<T>(sigma));
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
}

}  // namespace opbridge::op::soft_nms
