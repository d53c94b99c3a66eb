// Elements in the reverse order.
#include <limits>

#include "lowering/add.h"

namespace opbridge::lowering {
namespace {

Value flip(GraphBuilder& g, Value self, std::vector<int64_t> dims) {
  if (self.rank() == 0) return self;
  for (int64_t axis : wrap_axes(dims, self.rank())) {
    const ir::TensorType type = self.type();
    self = g.slice(self, axis, -1, std::numeric_limits<int64_t>::min(), -1);
    self.get()->type = type;
  }
  return self;
}

}  // namespace

void register_flipping(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::flip(Tensor self, int[] dims) -> Tensor", Since{10}, flip);
  on("aten::flipud(Tensor self) -> Tensor", Since{10},
     [](GraphBuilder& g, Value self) { return flip(g, self, {0}); });
  on("aten::fliplr(Tensor self) -> Tensor", Since{10},
     [](GraphBuilder& g, Value self) { return flip(g, self, {1}); });
}

}  // namespace opbridge::lowering
