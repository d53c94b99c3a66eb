#include "runtimes/standard/bodies.h"

namespace opbridge::standard {

const SymbolicRegistry& bodies() {
  static const SymbolicRegistry all = [] {
    SymbolicRegistry registry;
    register_distance(registry);
    register_elementary(registry);
    register_linalg(registry);
    register_points(registry);
    register_searching(registry);
    register_special(registry);
    register_vision(registry);
    return registry;
  }();
  return all;
}

}  // namespace opbridge::standard
