#pragma once

#include <string_view>

#include "opbridge/ir.h"

namespace opbridge {

// Where a node comes from, read from the two texts that torch.export keeps of it. `module_stack` lists the
// modules around the call, outermost first, as "key,path,class" with ';' between them; `stack_trace` is a
// Python traceback, outermost frame first. Of its frames the innermost outside of torch itself counts, with
// the file's name alone. Either text may be empty.
ir::Source read_source(std::string_view module_stack, std::string_view stack_trace);

}  // namespace opbridge
