#include "bindings.h"

NB_MODULE(_core, module) {
  using namespace opbridge::python;
  // The registry and its functions refer to each other through Python until the interpreter exits.
  nb::set_leak_warnings(false);
  module.doc() = "The C++ core of opbridge.";
  module.attr("__version__") = OPBRIDGE_VERSION;
  bind_errors(module);
  bind_comparison(module);
  bind_dim(module);
  bind_graph(module);
  bind_program(module);
  bind_symbolic(module);
  bind_weights(module);
  bind_pipeline(module);
}
