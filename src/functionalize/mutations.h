// In-place operators and `out=` variants, and the pure operators that compute what they write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::functionalization {

enum class Write : uint8_t {
  computed,  // writes the results of a pure operator with the same arguments
  copied,    // writes another argument: `copy_`
  filled,    // writes one number: `fill_`
  diagonal,  // writes one number along the diagonal
};

struct Written {
  std::string argument;
  std::string only_with = {};  // the argument without which the operator leaves this one as it is
};

struct Mutation {
  Write write = Write::computed;
  std::string pure = {};  // for `computed`: the pure operator
  // For an `out=` variant: the arguments that it writes, which the pure operator lacks. Empty for an in-place
  // operator, which writes to its first tensor.
  std::vector<std::string> outs = {};
  // For an in-place operator that writes to several tensors, or to lists of them: its arguments that the
  // results of the pure operator replace, in order.
  std::vector<Written> written = {};
};

// How the operator writes, judged by its name and arguments; nothing if it is neither in-place nor an out=
// variant.
std::optional<Mutation> mutation_of(const ir::Node& node);

// Whether the operator is a normalization by batch statistics that also updates the running ones.
bool updates_statistics(const ir::Node& node);

// Adapts the arguments of a node whose operator was replaced by the pure one: names, order, a default that
// the pure one lacks, and the element type that the `out=` argument had.
void adapt_arguments(ir::Node& node, ElementType written);

// The element type of a pure operator's result, before it is written to a tensor of type `written`.
ElementType computed_type(const ir::Node& node, ElementType written);

}  // namespace opbridge::functionalization
