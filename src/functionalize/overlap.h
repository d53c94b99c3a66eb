// Writes whose source is another part of the tensor that they change, as in `x[:, 1:] = x[:, :-1]`.
#pragma once

#include "functionalize/memory.h"

namespace opbridge::functionalization {

// Whether PyTorch, which visits elements in the order of memory, reads elements of `source` after it has
// changed them through `target`. A `copy` may read an element after it was copied to itself. False if it is
// not known which parts the views are.
bool reads_changed_elements(Memory& memory, View& target, View& source, bool copies);

}  // namespace opbridge::functionalization
