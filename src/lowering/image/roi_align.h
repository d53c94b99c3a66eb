// torchvision's RoIAlign in ONNX.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// The first opset with such a RoiAlign. Before opset 16, it does not shift regions by half a pixel, which
// `aligned` requires.
inline int first_opset_of_roi_align(bool aligned) { return aligned ? 16 : 10; }

Value roi_align_of_onnx(GraphBuilder& g, Value input, Value rois, double spatial_scale, int64_t pooled_height,
                        int64_t pooled_width, int64_t sampling_ratio, bool aligned);

}  // namespace opbridge::lowering
