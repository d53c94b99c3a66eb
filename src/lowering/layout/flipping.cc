// Reversal of axes, and rotations by quarter turns.
#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

Value flip(GraphBuilder& g, Value self, std::vector<int64_t> dims) {
  if (self.rank() == 0) return self;
  for (int64_t axis : wrap_axes(dims, self.rank())) self = reversed(g, self, axis);
  return self;
}

// Rotates by quarter turns from the first of `dims` to the second.
Value rot90(GraphBuilder& g, Value self, int64_t turns, std::vector<int64_t> dims) {
  dims = wrap_axes(dims, self.rank());
  turns = (turns % 4 + 4) % 4;
  if (turns == 0) return self;
  if (turns == 2) return flip(g, self, dims);
  std::vector<int64_t> order(self.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.at(dims.at(0)), order.at(dims.at(1)));
  return g.transpose(flip(g, self, {turns == 1 ? dims[1] : dims[0]}), std::move(order));
}

}  // namespace

void register_flipping(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::flip(Tensor self, int[] dims) -> Tensor", Since{9}, flip);
  on("aten::flipud(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return flip(g, self, {0}); });
  on("aten::fliplr(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return flip(g, self, {1}); });
  on("aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", Since{9}, rot90);
}

}  // namespace opbridge::lowering
