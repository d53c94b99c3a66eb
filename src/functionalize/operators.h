// What the operators of PyTorch do with memory, by name.
#pragma once

#include <cstdint>
#include <string_view>

namespace opbridge::functionalization {

enum class Effect : uint8_t {
  pure,           // results in new memory
  same,           // the tensor itself
  alias,          // another tensor over the same elements
  copy,           // the same elements in new memory
  view,           // some or all elements of the same memory in another arrangement
  view_or_copy,   // a view where the strides allow one, otherwise new memory
  contiguous,     // the tensor itself where it is contiguous, otherwise a copy
  convert,        // the tensor itself, or nearly, where the element type stays; otherwise new memory
  dropout,        // the tensor itself where nothing is dropped, otherwise as its name says
  complex_view,   // the tensor itself where it is real, otherwise a view
  unclear,        // results may share memory with any tensor argument
  unclear_alone,  // the same where there is one tensor argument; new memory where there are more
  reads_sizes,    // new memory; of its arguments only sizes and element types matter
  rearrange,      // gives the tensor itself another arrangement: `transpose_`
  reassign,       // gives the tensor itself another memory, that of its second argument: `set_`
  observes,       // new memory; where its observer is on, changes what it has observed
  refused,        // changes memory in a way that a graph cannot express
};

// How a view picks its elements.
enum class ViewKind : uint8_t {
  none,
  reshape,  // all of them, in the same order
  permute,
  adjoint,  // permuted, and conjugated where complex
  select,
  slice,
  narrow,
  diagonal,
  split,   // one of several slices
  unbind,  // one of several selections
  expand,
  overlapping,
  strided,
  bits,  // the same bytes as another element type
  real_pairs,
  complex_numbers,
  real_part,
  imaginary_part,
  conjugate,
  negative,
};

struct MemoryRule {
  Effect effect = Effect::pure;
  ViewKind view = ViewKind::none;
};

// Looks for "aten::name.overload", then for "aten::name".
MemoryRule memory_rule(std::string_view op);

// "aten::add.Tensor" without its overload: "aten::add".
std::string_view without_overload(std::string_view op);

}  // namespace opbridge::functionalization
