// What a GraphBuilder and the builders of its subgraphs share.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "opbridge/symbolic.h"
#include "support/unique_name.h"

namespace opbridge {

struct GraphBuilder::State {
  ir::Graph* root = nullptr;  // constants live here, for all subgraphs
  NameCounts used_names, used_symbols;
  std::map<std::string, Value> small_constants;  // type, dims and bytes → the one initializer
  std::vector<OnnxFunction> functions;
  std::unordered_set<const ir::Graph*> used_bodies;  // those that are a node's attribute
  // Of the expressions that were asked for, which are kept: long ones are not written again and again.
  std::unordered_map<ExprPtr, std::string> texts;
  // What `size` and `sizes` have computed, and of which dims.
  std::unordered_map<const ir::Value*, std::vector<Dim>> computed_sizes;
  // Constants that stand for a Python number: they take the element type of what they meet.
  std::unordered_set<const ir::Value*> numbers;
};

}  // namespace opbridge
