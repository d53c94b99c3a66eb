// What PyTorch does in each operator that later stages must know of: with memory, with element types and with
// complex numbers. The table is traits_table.inc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace opbridge::torch {

// What an operator does with memory.
enum class Effect : uint8_t {
  pure,           // results in new memory, or an in-place or `out=` operator by its name (mutations.h)
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

// Where the result comes from. All but `other` make a contiguous result if all their tensors are contiguous.
enum class Kind : uint8_t {
  other,
  elementwise,  // each element from those at the same index of the broadcast arguments
  factory,      // from sizes and numbers; an argument `dtype` tells its element type
  contiguous,
};

// The element type in which the result is computed, before an in-place or `out=` operator converts it to the
// type of the tensor that it writes.
enum class Result : uint8_t {
  other,           // that of the tensor that is written, or by a rule of its own
  same,            // that of the first tensor
  promoted,        // the one to which the tensors and numbers are promoted
  promoted_float,  // the same; float32 where that is integral
  boolean,
};

// The call of the mapping for real tensors that lowers the operator for complex ones.
enum class ComplexRule : uint8_t {
  none,              // no such call: code in lowering/complex, or refused
  parts,             // one for each part: the operator is linear, or moves elements alone
  conjugated_parts,  // the same, with the imaginary part negated
  pairs,             // one with pairs of real and imaginary part in a last dim
  truth,             // one with whether the numbers are zero
  magnitude,         // one with their absolute values
  real_part,         // one with their real parts, where an argument `dtype` makes the result real
  real_result,       // one whose result has an imaginary part of zero
  deviation,         // one for each part: the variance is the sum of theirs
};

struct Traits {
  Effect effect = Effect::pure;
  ViewKind view = ViewKind::none;
  Kind kind = Kind::other;
  Result result = Result::other;
  ComplexRule complex = ComplexRule::none;
};

// Looks for "aten::name.overload", then for "aten::name"; Traits{} where neither has a row.
const Traits& traits_of(std::string_view op);

// "aten::add.Tensor" without its overload: "aten::add".
std::string_view without_overload(std::string_view op);

struct TraitsRow {
  std::string_view op;
  Traits traits;
};
std::span<const TraitsRow> all_traits();

}  // namespace opbridge::torch
