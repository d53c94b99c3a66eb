#include <cmath>
#include <limits>

#include "builder/exact_floats.h"
#include "lowering/add.h"
#include "lowering/image/roi_align.h"
#include "lowering/indexing/indexing.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {

// RoiAlign takes the regions and their image indices as separate inputs.
Value roi_align_of_onnx(GraphBuilder& g, Value input, Value rois, double spatial_scale, int64_t pooled_height,
                        int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  const Value images = g.cast(g.squeeze(g.slice(rois, 1, 0, 1), {1}), ElementType::int64);
  Value boxes = g.slice(rois, 1, 1, 5);
  if (rois.element_type() == ElementType::float64 && !builder::is_float32(spatial_scale)) {
    boxes = g.op("Mul", boxes, g.scalar_like(boxes, spatial_scale));
    spatial_scale = 1;
  }
  std::vector<Operand> operands{input,
                                boxes,
                                images,
                                attr("spatial_scale", spatial_scale),
                                attr("output_height", pooled_height),
                                attr("output_width", pooled_width),
                                attr("sampling_ratio", std::max<int64_t>(sampling_ratio, 0))};
  if (g.opset() >= 16 && !aligned) {
    operands.push_back(attr("coordinate_transformation_mode", std::string("output_half_pixel")));
  }
  return g.op_list("RoiAlign", 1, std::move(operands)).front();
}

namespace {

Value roi_align(GraphBuilder& g, Value input, Value rois, double spatial_scale, int64_t pooled_height,
                int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  if (g.opset() < first_opset_of_roi_align(aligned)) {
    return g.op("opbridge::roi_align", input, rois, attr("spatial_scale", spatial_scale),
                attr("pooled_height", pooled_height), attr("pooled_width", pooled_width),
                attr("sampling_ratio", sampling_ratio), attr("aligned", static_cast<int64_t>(aligned)));
  }
  return roi_align_of_onnx(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio,
                           aligned);
}

// NonMaxSuppression takes float32 and has batch and class dims.
Value nms(GraphBuilder& g, Value boxes, Value scores, double iou_threshold) {
  const bool standard = g.opset() >= 10 && boxes.element_type() == ElementType::float32 &&
                        iou_threshold >= 0 && iou_threshold <= 1;
  if (!standard) return g.op("opbridge::nms", boxes, scores, attr("iou_threshold", iou_threshold));
  const Value all = g.ints({std::numeric_limits<int64_t>::max()});
  // NonMaxSuppression compares with a float32 threshold, torchvision with a double.
  auto rounded = static_cast<float>(iou_threshold);
  if (rounded > iou_threshold) rounded = std::nextafter(rounded, -1.0F);
  const Value threshold = g.unsqueeze(g.scalar(static_cast<double>(rounded), ElementType::float32), {0});
  const Value kept =
      g.op("NonMaxSuppression", g.unsqueeze(boxes, {0}), g.unsqueeze(scores, {0, 1}), all, threshold);
  return g.gather(kept, g.scalar(2, ElementType::int64), 1);
}

using Dims = std::vector<Dim>;

// The gradient of a region pool depends only on the sizes of its input.
Value roi_align_gradient(GraphBuilder& g, Value grad, Value rois, double spatial_scale, int64_t pooled_height,
                         int64_t pooled_width, Dim batch, Dim channels, Dim height, Dim width,
                         int64_t sampling_ratio, bool aligned) {
  const Dims dims{batch, channels, height, width};
  const Value input = filled(g, dims, 0, grad.element_type());
  return kernel(
      g, "opbridge::roi_align_backward",
      {grad, input, rois, attr("spatial_scale", spatial_scale), attr("pooled_height", pooled_height),
       attr("pooled_width", pooled_width), attr("sampling_ratio", sampling_ratio),
       attr("aligned", static_cast<int64_t>(aligned)), attr("wanted", std::vector<int64_t>{1})},
      {grad.element_type(), dims});
}

// The channels of the bins, which the forward operator returns, are always 0, 1, …. They serve as the
// gradient that the kernel takes for them and does not read.
Value position_sensitive_gradient(GraphBuilder& g, std::string_view op, Value grad, Value rois, Value mapping,
                                  const Dims& dims, std::vector<Attr> attributes) {
  std::vector<Operand> operands{grad, mapping, filled(g, dims, 0, grad.element_type()), rois};
  operands.insert(operands.end(), attributes.begin(), attributes.end());
  operands.push_back(attr("wanted", std::vector<int64_t>{1}));
  return kernel(g, op, std::move(operands), {grad.element_type(), dims});
}

// Each bin's gradient goes to the pixel of its maximum, whose index in the plane is in `argmax`; -1 for none.
Value roi_pool_gradient(GraphBuilder& g, Value grad, Value rois, Value argmax, Ignored, Ignored, Ignored,
                        Dim batch, Dim channels, Dim height, Dim width) {
  const auto number = [&](const Dim& dim) { return g.scalar(dim, ElementType::int64); };
  const Value zero = g.scalar(0, ElementType::int64);
  const Value images = g.cast(g.slice(rois, 1, 0, 1), ElementType::int64);
  Value planes = g.op("Add", g.op("Mul", images, number(channels)), arithmetic(g, 0, 1, channels));
  planes = g.op("Mul", g.unsqueeze(planes, {2, 3}), number(height * width));
  const Value at = g.cast(argmax, ElementType::int64);
  const Value none = g.op("Less", at, zero);
  const Value indices = g.op("Where", none, zero, g.op("Add", planes, at));
  const Value updates = g.op("Where", none, g.scalar_like(grad, 0), grad);
  const Dims all{batch * channels * height * width};
  const Value start = filled(g, all, 0, grad.element_type());
  return g.reshape(
      scatter_rows(g, start, 0, flat(g, g.typed(indices, argmax.dims())), flat(g, updates), Reduction::add),
      Dims{batch, channels, height, width});
}

std::array<Value, 5> deform_conv2d_gradient(GraphBuilder& g, Value grad, Value input, Value weight,
                                            Value offset, Value mask, Value bias, int64_t stride_h,
                                            int64_t stride_w, int64_t pad_h, int64_t pad_w,
                                            int64_t dilation_h, int64_t dilation_w, int64_t groups,
                                            int64_t offset_groups, bool use_mask) {
  auto made = g.ops<5>("opbridge::deform_conv2d_backward", grad, input, weight, offset,
                       use_mask ? mask : Value(), bias, attr("stride_h", stride_h),
                       attr("stride_w", stride_w), attr("pad_h", pad_h), attr("pad_w", pad_w),
                       attr("dilation_h", dilation_h), attr("dilation_w", dilation_w), attr("groups", groups),
                       attr("offset_groups", offset_groups), attr("use_mask", static_cast<int64_t>(use_mask)),
                       attr("wanted", std::vector<int64_t>{1, 1, 1, use_mask ? 1 : 0, 1}));
  const std::array<Value, 5> of{input, weight, offset, mask, bias};
  for (size_t i = 0; i < of.size(); ++i) g.typed(made[i], of[i].type());
  if (!use_mask) made[3] = filled(g, mask.dims(), 0, mask.element_type());
  return made;
}

}  // namespace

void register_vision(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
     "SymInt stride_h, "
     "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
     "SymInt offset_groups, "
     "bool use_mask) -> Tensor",
     Since{1},
     [](GraphBuilder& g, Value input, Value weight, Value offset, Value mask, Value bias, int64_t stride_h,
        int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
        int64_t groups, int64_t offset_groups, bool use_mask) {
       if (g.opset() < 19) {
         return g.op("opbridge::deform_conv2d", input, weight, offset, use_mask ? mask : Value(), bias,
                     attr("stride_h", stride_h), attr("stride_w", stride_w), attr("pad_h", pad_h),
                     attr("pad_w", pad_w), attr("dilation_h", dilation_h), attr("dilation_w", dilation_w),
                     attr("groups", groups), attr("offset_groups", offset_groups));
       }
       using Ints = std::vector<int64_t>;
       return g.op("DeformConv", input, weight, offset, bias, use_mask ? mask : Value(),
                   attr("strides", Ints{stride_h, stride_w}), attr("pads", Ints{pad_h, pad_w, pad_h, pad_w}),
                   attr("dilations", Ints{dilation_h, dilation_w}), attr("group", groups),
                   attr("offset_group", offset_groups));
     });

  on("torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
     "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
     Since{1}, roi_align);
  on("torchvision::_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, "
     "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width, int "
     "sampling_ratio, bool aligned) -> Tensor",
     Since{9}, roi_align_gradient);
  on("torchvision::_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt "
     "pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) "
     "-> "
     "Tensor",
     Since{16}, roi_pool_gradient);
  on("torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float "
     "spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, "
     "SymInt channels, SymInt height, SymInt width) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value grad, Value rois, Value channel_mapping, double spatial_scale,
        int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio, Dim batch, Dim channels,
        Dim height, Dim width) {
       return position_sensitive_gradient(
           g, "opbridge::ps_roi_align_backward", grad, rois, channel_mapping,
           {batch, channels, height, width},
           {attr("spatial_scale", spatial_scale), attr("pooled_height", pooled_height),
            attr("pooled_width", pooled_width), attr("sampling_ratio", sampling_ratio)});
     });
  on("torchvision::_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float "
     "spatial_scale, SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt "
     "height, SymInt width) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value grad, Value rois, Value channel_mapping, double spatial_scale,
        int64_t pooled_height, int64_t pooled_width, Dim batch, Dim channels, Dim height, Dim width) {
       return position_sensitive_gradient(
           g, "opbridge::ps_roi_pool_backward", grad, rois, channel_mapping, {batch, channels, height, width},
           {attr("spatial_scale", spatial_scale), attr("pooled_height", pooled_height),
            attr("pooled_width", pooled_width)});
     });
  on("torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor "
     "mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
     "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, "
     "Tensor, Tensor)",
     Since{9}, deform_conv2d_gradient);
  on("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", Since{1}, nms);

  on("torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
     "SymInt pooled_width) -> (Tensor, Tensor)",
     Since{1},
     [](GraphBuilder& g, Value input, Value rois, double spatial_scale, int64_t pooled_height,
        int64_t pooled_width) {
       return g.ops<2>("opbridge::roi_pool", input, rois, attr("spatial_scale", spatial_scale),
                       attr("pooled_height", pooled_height), attr("pooled_width", pooled_width));
     });
  on("torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
     "SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
     Since{1},
     [](GraphBuilder& g, Value input, Value rois, double spatial_scale, int64_t pooled_height,
        int64_t pooled_width, int64_t sampling_ratio) {
       return g.ops<2>("opbridge::ps_roi_align", input, rois, attr("spatial_scale", spatial_scale),
                       attr("pooled_height", pooled_height), attr("pooled_width", pooled_width),
                       attr("sampling_ratio", sampling_ratio));
     });
  on("torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
     "SymInt pooled_width) -> (Tensor, Tensor)",
     Since{1},
     [](GraphBuilder& g, Value input, Value rois, double spatial_scale, int64_t pooled_height,
        int64_t pooled_width) {
       return g.ops<2>("opbridge::ps_roi_pool", input, rois, attr("spatial_scale", spatial_scale),
                       attr("pooled_height", pooled_height), attr("pooled_width", pooled_width));
     });
}

}  // namespace opbridge::lowering
