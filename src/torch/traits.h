// The traits of PyTorch's operators that later stages need: their effect on memory, their element types, and
// their lowering for complex numbers. The table is traits_table.inc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace opbridge::torch {

// The effect of an operator on memory.
enum class Effect : uint8_t {
  pure,           // new memory, or in-place or `out=` as its name says (functionalize/mutations.h)
  same,           // the tensor itself
  alias,          // another tensor over the same elements
  copy,           // the same elements in new memory
  view,           // some or all elements of the same memory in another arrangement
  view_or_copy,   // a view if the strides allow one, otherwise new memory
  flatten,        // the tensor itself if no dims are joined, otherwise as `view_or_copy`
  contiguous,     // the tensor itself if it is contiguous, otherwise a copy
  convert,        // the tensor or an alias if the element type stays, otherwise new memory
  dropout,        // the tensor itself if nothing is dropped, otherwise as its name says
  complex_view,   // the tensor itself if it is real, otherwise a view
  unclear,        // results may share memory with any tensor argument
  unclear_alone,  // as `unclear` for one tensor argument; new memory for several
  reads_sizes,    // new memory; reads only sizes and element types of its arguments
  rearrange,      // changes the tensor's own sizes or strides: `transpose_`
  reassign,       // makes the tensor share the memory of its second argument: `set_`
  observes,       // new memory; updates its observer's state if the observer is on
  refused,        // changes memory in a way that a graph cannot express
};

// How a view selects its elements.
enum class ViewKind : uint8_t {
  none,
  reshape,  // all elements in the same order
  permute,
  adjoint,  // permuted, and conjugated if complex
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

// How the result is computed. For all kinds but `other`, it is contiguous if all tensors are.
enum class Kind : uint8_t {
  other,
  elementwise,  // each element depends on those at the same index of the broadcast arguments
  factory,      // from sizes and numbers; an argument `dtype` sets the element type
  contiguous,
};

// The element type in which the result is computed. An in-place or `out=` operator then converts it to the
// type of the tensor that it writes.
enum class Result : uint8_t {
  other,           // that of the tensor that is written, or by a special rule
  same,            // that of the first tensor
  promoted,        // the promoted type of the tensors and numbers
  promoted_float,  // the promoted type; float32 if that is integral
  boolean,
};

// How the lowering for complex tensors calls the one for real tensors.
enum class ComplexRule : uint8_t {
  none,              // it does not: there is code in lowering/complex, or it is refused
  parts,             // once for each part: the operator is linear, or only moves elements
  conjugated_parts,  // once for each part, with the imaginary part negated
  pairs,             // once on pairs of real and imaginary part in a last dim
  truth,             // once on whether the numbers are nonzero
  magnitude,         // once on the absolute values
  real_part,         // once on the real parts, if an argument `dtype` makes the result real
  real_result,       // once; the imaginary part of the result is zero
  deviation,         // once for each part; their variances are added
};

struct Traits {
  Effect effect = Effect::pure;
  ViewKind view = ViewKind::none;
  Kind kind = Kind::other;
  Result result = Result::other;
  ComplexRule complex = ComplexRule::none;
};

// Looks up "aten::name.overload", then "aten::name"; Traits{} if neither has a row.
const Traits& traits_of(std::string_view op);

// "aten::add.Tensor" without its overload: "aten::add".
std::string_view without_overload(std::string_view op);

// The operator of which `op` is the copying form: "aten::view.dtype" of "aten::view_copy.dtype". `op` itself
// if it is not a copying form.
std::string without_copy(std::string_view op);

struct TraitsRow {
  std::string_view op;
  Traits traits;
};
std::span<const TraitsRow> all_traits();

}  // namespace opbridge::torch
