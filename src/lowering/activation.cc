#include "lowering/add.h"

namespace opbridge::lowering {

void register_activation(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::relu(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return g.op("Relu", self); });

  on("aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", Since{11},
     [](GraphBuilder& g, Value self, Scalar min_val, Scalar max_val) {
       return g.op("Clip", self, g.scalar_like(self, min_val), g.scalar_like(self, max_val));
     });
}

}  // namespace opbridge::lowering
