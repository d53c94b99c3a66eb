#pragma once

#include <vector>

#include "ir/readers.h"
#include "opbridge/ir.h"

namespace opbridge::ir {

// Finds the values of a graph of ONNX's operators that are rounded to integers or compared: the last bit of
// such a value may decide the result.
class Rounding {
 public:
  explicit Rounding(const Graph& graph) : readers_(graph) {}  // without the bodies of its nodes

  // Whether the value is rounded or compared, possibly after it is scaled, shifted, limited or rearranged.
  bool follows(const Value* value) const;
  const std::vector<const Node*>& users(const Value* value) const { return readers_.of(value); }

 private:
  Readers readers_;
};

}  // namespace opbridge::ir
