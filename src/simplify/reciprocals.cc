#include <algorithm>
#include <unordered_map>

#include "ir/queries.h"
#include "ir/rounding.h"
#include "ir/uses.h"
#include "simplify/passes.h"

namespace opbridge::simplification {
namespace {

// Half types would be rounded at another step, and runtimes fuse few nodes of float64.
bool is_float32(const ir::Value& value) { return ir::element_type(&value) == ElementType::float32; }

}  // namespace

bool divide_by_reciprocals(ir::Graph& graph) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) {
    // Only within one graph: a body may run often, and a value inverted outside of it is computed once.
    std::unordered_map<const ir::Value*, ir::Value*> inverted;
    const ir::Rounding rounding(*each);
    for (ir::Node* node : each->nodes) {
      if (node->op == "Reciprocal") inverted.emplace(node->outputs[0], node->inputs[0]);
      if (node->op != "Mul" || !is_float32(*node->outputs[0])) continue;
      const auto reciprocal = std::ranges::find_if(
          node->inputs, [&](const ir::Value* value) { return inverted.contains(value); });
      if (reciprocal == node->inputs.end() || rounding.follows(node->outputs[0])) continue;
      ir::Value* other = node->inputs[reciprocal == node->inputs.begin() ? 1 : 0];
      node->op = "Div";
      node->inputs = {other, inverted.at(*reciprocal)};
      changed = true;
    }
  }
  return changed;
}

}  // namespace opbridge::simplification
