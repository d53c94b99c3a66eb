// The limit of constants that mappings make.
#pragma once

#include <cstdint>

#include "opbridge/symbolic.h"

namespace opbridge {

// Refuses a constant of so many elements that it may exceed the 2 GB limit of a model file. A program may
// declare any sizes.
void check_constant(const GraphBuilder& g, int64_t count);

}  // namespace opbridge
