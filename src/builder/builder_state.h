// State that a GraphBuilder shares with the builders of its subgraphs.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "opbridge/symbolic.h"
#include "support/unique_name.h"

namespace opbridge {

struct GraphBuilder::State {
  ir::Graph* root = nullptr;  // holds the constants of all subgraphs
  support::NameCounts used_names, used_symbols;
  std::map<std::string, Value> small_constants;  // type, dims and bytes → initializer
  std::map<std::tuple<const ir::Value*, ElementType, std::vector<int64_t>>, Value> converted_constants;
  std::vector<OnnxFunction> functions;
  std::unordered_set<const ir::Graph*> used_bodies;  // bodies that are an attribute of a node
  // The text of a dynamic size. Long ones are slow to write.
  const std::string& text_of(const Dim& dim) {
    std::string& text = texts[dim.expr()];
    if (text.empty()) text = dim.str();
    return text;
  }
  std::unordered_map<ExprPtr, std::string> texts;
  // Values that `size` and `sizes` made, and their dims.
  std::unordered_map<const ir::Value*, std::vector<Dim>> computed_sizes;
  // Constants that are Python numbers: they take the element type of the tensors that they are operands with.
  std::unordered_set<const ir::Value*> numbers;
};

}  // namespace opbridge
