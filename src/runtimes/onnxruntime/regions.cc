// Versions: all that were tried, 1.20 and 1.32.
// Model: RoiAlign of opset 22.
// Fault: there is no kernel; the model does not load.
// Rewrite: opbridge::roi_align, whose regions have the index of their image in the first column.
// Tests: test_runtime_faults.py, test_lowering_vision.py.
#include "ir/attribute_or.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value own_roi_align(GraphBuilder& g, const ir::Node& align) {
  if (g.opset() < 22 || ir::attribute_or<std::string>(align, "mode", "avg") != "avg") return {};
  const Value x(align.inputs[0]), boxes(align.inputs[1]), images(align.inputs[2]);
  const Value rois = g.concat({g.unsqueeze(g.cast(images, boxes.element_type()), {1}), boxes}, 1);
  const auto integer = [&](const char* name, int64_t otherwise) {
    return ir::attribute_or<int64_t>(align, name, otherwise);
  };
  const std::string transformation =
      ir::attribute_or<std::string>(align, "coordinate_transformation_mode", "half_pixel");
  return g.op("opbridge::roi_align", x, rois,
              attr("spatial_scale", ir::attribute_or<double>(align, "spatial_scale", 1)),
              attr("pooled_height", integer("output_height", 1)),
              attr("pooled_width", integer("output_width", 1)),
              attr("sampling_ratio", integer("sampling_ratio", 0)),
              attr("aligned", static_cast<int64_t>(transformation == "half_pixel")));
}

}  // namespace opbridge::onnxruntime
