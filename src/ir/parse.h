// Parses the textual form of graphs. Tests write the graphs before and after a pass in it.
#pragma once

#include <string_view>

#include "opbridge/ir.h"

namespace opbridge::ir {

// Inverts print: print(parse(text)) is `text` again. A constant without values, as print writes those of more
// than eight elements, is filled with zeros. Node scopes are kept; source lines are not in the text. Throws
// Error(invalid_argument) with the line that cannot be parsed. Sparse tensors cannot be parsed.
Graph parse(std::string_view text);

}  // namespace opbridge::ir
