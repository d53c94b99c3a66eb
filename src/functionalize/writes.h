// In-place operators, `out=` variants and custom operators that write to their arguments.
#pragma once

#include "functionalize/memory.h"
#include "functionalize/mutations.h"
#include "opbridge/schema.h"

namespace opbridge::functionalization {

void write_in_place(Memory& memory, ir::Node& node, const Mutation& mutation);
// Also one that writes to several tensors. One that writes to lists becomes a call for each index.
void write_several(Memory& memory, ir::Node& node, const Mutation& mutation);
void write_out(Memory& memory, ir::Node& node, const Mutation& mutation);

// A normalization by batch statistics that also updates the running ones.
void normalize_by_batch(Memory& memory, ir::Node& node);

// A custom operator whose schema declares what it writes. The node stays; it must return the new elements of
// each argument that it writes, as `Tensor(a!)`. Returns false if the schema declares no writes.
bool call_by_schema(Memory& memory, ir::Node& node, const OperatorSchema& schema);

}  // namespace opbridge::functionalization
