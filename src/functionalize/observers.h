// Fake quantization with an observer: aten::fused_moving_avg_obs_fake_quant.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::functionalization {

struct Observed {
  const ir::Weight* running_min;
  const ir::Weight* running_max;
  const ir::Weight* scale;
  const ir::Weight* zero_point;
};

// PyTorch computes scales and zero points from the running extrema at each call. Returns whether the result
// equals the stored ones; false if any of the tensors is unknown.
bool is_up_to_date(const Observed& observed, int64_t least, int64_t greatest, bool symmetric);

}  // namespace opbridge::functionalization
