// Fake quantization that also observes: aten::fused_moving_avg_obs_fake_quant.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::functionalization {

struct Observed {
  const ir::Weight* running_min;
  const ir::Weight* running_max;
  const ir::Weight* scale;
  const ir::Weight* zero_point;
};

// Whether PyTorch, which computes scales and zero points anew from the running extremes at each call, gets
// the ones that are there. False where one of them is not known.
bool is_up_to_date(const Observed& observed, int64_t least, int64_t greatest, bool symmetric);

}  // namespace opbridge::functionalization
