// In-place operators and `out=` variants, and the pure operators that compute what they write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::functionalization {

enum class Write : uint8_t {
  computed,  // the results of a pure operator with the same arguments
  copied,    // another argument: `copy_`
  filled,    // one number: `fill_`
  diagonal,  // one number along the diagonal
};

struct Mutation {
  Write write = Write::computed;
  std::string pure = {};  // of `computed`: the operator
  // Of an `out=` variant: the arguments that are written, which the pure operator does not have. An in-place
  // operator has none here: it writes to its first tensor.
  std::vector<std::string> outs = {};
};

// Nothing where the operator is neither, as far as its name and arguments tell.
std::optional<Mutation> mutation_of(const ir::Node& node);

// Whether the operator is a normalization by batch statistics that also updates the running ones.
bool updates_statistics(const ir::Node& node);

// Brings the arguments of a node whose operator has just become the pure one into that one's form: other
// names, another order, the element type that an `out=` argument has told.
void adapt_arguments(ir::Node& node, ElementType written);

// The element type that a pure operator computes, before it is written to a tensor of type `written`.
ElementType computed_type(const ir::Node& node, ElementType written);

}  // namespace opbridge::functionalization
