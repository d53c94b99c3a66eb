#pragma once

#include "functionalize/memory.h"

namespace opbridge::functionalization {

// Each output of the graph becomes what it is at the end of the program, under its own name; what was written
// to outside follows.
void return_outputs(Memory& memory);

}  // namespace opbridge::functionalization
