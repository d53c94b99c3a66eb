// The bundled mappings, a function and a file for each family of operators.
#pragma once

#include "opbridge/registry.h"

namespace opbridge::lowering {

void register_activation(SymbolicRegistry& registry);

}  // namespace opbridge::lowering
