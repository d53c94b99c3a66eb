// Overlaps of rotated boxes. The arguments are those of mmcv.ops.box_iou_rotated.
#include "../common/rotated_boxes.h"
#include "../common/shapes.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::box_iou_rotated(Tensor bboxes1, Tensor bboxes2, str mode='iou', bool aligned=False, "
    "bool clockwise=True) -> Tensor")
    .shape([](const Shape& bboxes1, const Shape& bboxes2, std::string_view mode, bool aligned, bool) {
      require_rank(bboxes1, 2, "bboxes1");
      require_rank(bboxes2, 2, "bboxes2");
      require_shape(bboxes1, {bboxes1[0], 5}, "bboxes1");
      require_shape(bboxes2, {aligned ? bboxes1[0] : bboxes2[0], 5}, "bboxes2");
      require(mode == "iou" || mode == "iof", "mode must be 'iou' or 'iof', not '" + std::string(mode) + "'");
      return aligned ? Shape{bboxes1[0]} : Shape{bboxes1[0], bboxes2[0]};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> bboxes1, TensorView<const T> bboxes2,
                     std::string_view mode, bool aligned, bool clockwise, TensorView<T> out) {
           const double direction = clockwise ? 1 : -1;
           std::vector<RotatedBox> second;
           for (std::int64_t i = 0; i < bboxes2.dim(0); ++i) {
             second.push_back(RotatedBox::from(bboxes2.slice(i).data(), direction));
           }
           const std::int64_t columns = aligned ? 1 : bboxes2.dim(0);
           context.parallel_for(bboxes1.dim(0), 16, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               const RotatedBox first = RotatedBox::from(bboxes1.slice(i).data(), direction);
               for (std::int64_t j = 0; j < columns; ++j) {
                 const RotatedBox& other = second[static_cast<std::size_t>(aligned ? i : j)];
                 out[i * columns + j] = static_cast<T>(overlap(first, other, mode == "iou"));
               }
             }
           });
         });

}  // namespace
}  // namespace opbridge::op
