#pragma once

#include "functionalize/memory.h"

namespace opbridge::functionalization {

// Sets each output of the graph to its value at the end of the program, under its own name, and appends the
// new values of inputs and buffers that were written to.
void return_outputs(Memory& memory);

}  // namespace opbridge::functionalization
