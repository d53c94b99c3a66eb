#pragma once

#include "opbridge/registry.h"

namespace opbridge::lowering {

void register_fft(SymbolicRegistry& registry);

}  // namespace opbridge::lowering
