// Names for the sizes of outputs that depend on data.
#pragma once

#include "opbridge/convert.h"

namespace opbridge {

// Gives the symbols of output sizes the names in `names`, wherever the graph has these symbols. Sizes that
// follow from those of the inputs keep their expressions, and two different symbols never get one name.
void name_sizes_of_outputs(ir::Graph& graph, const SizeNames& names);

}  // namespace opbridge
