#include "soft_nms.h"

namespace opbridge::op::soft_nms {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::soft_nms(Tensor boxes, Tensor scores, float iou_threshold=0.3, float sigma=0.5, "
    "float min_score=0.001, str method='linear', int offset=0) -> (Tensor, Tensor)")
    .shape([](const Shape& boxes, const Shape& scores, double, double sigma, double, std::string_view method,
              std::int64_t offset) { return shape(boxes, scores, sigma, method_of(method), offset); })
    .cpu(floating_types,
         []<class T>(Context&, TensorView<const T> boxes, TensorView<const T> scores, double iou_threshold,
                     double sigma, double min_score, std::string_view method, std::int64_t offset,
                     Output<T> dets, Output<std::int64_t> inds) {
           run<T>(boxes, scores, iou_threshold, sigma, min_score, method_of(method), offset, dets, inds);
         });

}  // namespace
}  // namespace opbridge::op::soft_nms
