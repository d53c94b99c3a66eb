// The notes of the captures about PyTorch's memory layout, and as_strided, which depends on them.
#pragma once

#include <optional>
#include <string_view>

#include "functionalize/memory.h"
#include "functionalize/strides.h"

namespace opbridge::functionalization {

// The node `opbridge::memory_layout`, which the captures add before the first use of an input or weight that
// is not contiguous in PyTorch (`self_stride`), or does not begin where its storage does (`self_offset`).
void note_layout(Memory& memory, const ir::Node& node);

// Returns the view whose elements, in row-major order, are the memory that an operator like as_strided on the
// view `shown` reads by its strides; may emit a permutation. Makes the node's `storage_offset` count from the
// first of these elements. Throws Error(unsupported) if the layout is not known, or if the operator reads
// memory outside the view.
View& read_by_strides(Memory& memory, ir::Node& node, View& shown);

[[noreturn]] void refuse_layout(const ir::Node& node);

// Nothing if the argument is missing.
std::optional<Strides> strides_given(const ir::Node& node, std::string_view argument);

}  // namespace opbridge::functionalization
