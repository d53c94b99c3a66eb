// In-place operators, `out=` variants and custom operators that write to their arguments.
#pragma once

#include "functionalize/memory.h"
#include "functionalize/mutations.h"
#include "opbridge/schema.h"

namespace opbridge::functionalization {

void write_in_place(Memory& memory, ir::Node& node, const Mutation& mutation);
void write_out(Memory& memory, ir::Node& node, const Mutation& mutation);

// batch_norm with the statistics of the batch, which also updates the running ones.
void normalize_by_batch(Memory& memory, ir::Node& node);

// A custom operator whose schema says what it writes. It stays; for each argument that it writes it must
// return the new elements, as `Tensor(a!)`. Returns false where the schema shows no aliasing at all.
bool call_by_schema(Memory& memory, ir::Node& node, const OperatorSchema& schema);

}  // namespace opbridge::functionalization
