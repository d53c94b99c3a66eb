// What the pooling families share.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// Runs `pool` on (N, C, spatial…), for an input with or without its batch dim.
template <class Pool>
Value on_batch(GraphBuilder& g, Value input, size_t axes, Pool pool) {
  if (input.rank() == static_cast<int64_t>(axes) + 2) return pool(input);
  Value pooled = pool(g.unsqueeze(input, {0}));
  std::vector<Dim> dims = *g.result().dims;
  dims.insert(dims.begin(), Dim(1));
  pooled.get()->type = ir::TensorType{input.element_type(), dims};
  return g.squeeze(pooled, {0});
}

}  // namespace opbridge::lowering
