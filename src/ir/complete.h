#pragma once

#include "opbridge/ir.h"

namespace opbridge::ir {

// Whether the bytes are as many as the element type and the dims need; true for a type without a size.
bool is_complete(const Weight& weight);

}  // namespace opbridge::ir
