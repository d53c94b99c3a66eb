#pragma once

#include "opbridge/ir.h"

namespace opbridge::ir {

// Whether the number of bytes matches element type and dims; true for a type without a fixed size.
bool is_complete(const Weight& weight);

}  // namespace opbridge::ir
