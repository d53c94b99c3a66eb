#include "functionalize/subgraphs.h"

namespace opbridge::functionalization {

void for_each_use_in_subgraphs(const ir::Node& node, const std::function<void(ir::Value*&)>& visit) {
  for (const ir::GraphPtr& body : node.bodies()) {
    for (ir::Node* inner : body->nodes) {
      inner->for_each_use(visit);
      for_each_use_in_subgraphs(*inner, visit);
    }
    for (ir::Value*& output : body->outputs) visit(output);
  }
}

}  // namespace opbridge::functionalization
