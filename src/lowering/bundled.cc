#include "lowering/families.h"

namespace opbridge {

SymbolicRegistry SymbolicRegistry::with_bundled() {
  SymbolicRegistry registry;
  lowering::register_activation(registry);
  return registry;
}

}  // namespace opbridge
