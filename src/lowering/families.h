// The bundled mappings, a function and a file for each family of operators.
#pragma once

#include "opbridge/registry.h"

namespace opbridge::lowering {

void register_activation(SymbolicRegistry& registry);
void register_attention(SymbolicRegistry& registry);
void register_convolution(SymbolicRegistry& registry);
void register_indexing(SymbolicRegistry& registry);
void register_linear(SymbolicRegistry& registry);
void register_normalization(SymbolicRegistry& registry);
void register_pooling(SymbolicRegistry& registry);
void register_resize(SymbolicRegistry& registry);
void register_shape(SymbolicRegistry& registry);

}  // namespace opbridge::lowering
