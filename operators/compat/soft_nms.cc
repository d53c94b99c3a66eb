// The name that mmcv uses in ONNX. It writes the method as a number.
#include "../soft_nms/soft_nms.h"

namespace opbridge::op::soft_nms {
namespace {

Method method_of(std::int64_t number) {
  require(number >= 0 && number <= 2, "method must be 0 (naive), 1 (linear) or 2 (gaussian)");
  return static_cast<Method>(number);
}

OPBRIDGE_OPERATOR(
    "mmcv::SoftNonMaxSuppression(Tensor boxes, Tensor scores, float iou_threshold, float sigma, "
    "float min_score, int method, int offset) -> (Tensor, Tensor)")
    .shape([](const Shape& boxes, const Shape& scores, double, double sigma, double, std::int64_t method,
              std::int64_t offset) { return shape(boxes, scores, sigma, method_of(method), offset); })
    .cpu(floating_types,
         []<class T>(Context&, TensorView<const T> boxes, TensorView<const T> scores, double iou_threshold,
                     double sigma, double min_score, std::int64_t method, std::int64_t offset, Output<T> dets,
                     Output<std::int64_t> inds) {
           run<T>(boxes, scores, iou_threshold, sigma, min_score, method_of(method), offset, dets, inds);
         });

}  // namespace
}  // namespace opbridge::op::soft_nms
