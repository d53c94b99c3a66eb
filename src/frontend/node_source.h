#pragma once

#include <string_view>

#include "opbridge/ir.h"

namespace opbridge {

// The origin of a node, from the two texts that torch.export stores with it; either may be empty.
// `module_stack` lists the enclosing modules, outermost first, as "key,path,class" separated by ';'.
// `stack_trace` is a Python traceback, outermost frame first. The line is taken from the innermost frame
// outside torch, with the file's base name.
ir::Source read_source(std::string_view module_stack, std::string_view stack_trace);

}  // namespace opbridge
