#include "bindings.h"

NB_MODULE(_core, module) {
  using namespace opbridge::python;
  module.doc() = "The C++ core of opbridge.";
  bind_errors(module);
  bind_dim(module);
  bind_graph(module);
  bind_program(module);
}
