// The textual form of graphs, read back: tests write the graphs before and after a pass in it.
#pragma once

#include <string_view>

#include "opbridge/ir.h"

namespace opbridge::ir {

// The graph that print has written: print(parse(text)) is that text again. A constant without values, as
// print writes those of more than eight elements, is of zeros. The scope of a node is kept, its line is not
// in the text. Throws Error(invalid_argument) with the line that cannot be read; a sparse tensor cannot.
Graph parse(std::string_view text);

}  // namespace opbridge::ir
