#include "functionalize/subgraphs.h"

namespace opbridge::functionalization {

std::vector<ir::GraphPtr> subgraphs(const ir::Node& node) {
  std::vector<ir::GraphPtr> bodies;
  for (const ir::Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<ir::GraphPtr>(&attribute.value)) bodies.push_back(*body);
    if (const auto* list = std::get_if<std::vector<ir::GraphPtr>>(&attribute.value)) {
      bodies.insert(bodies.end(), list->begin(), list->end());
    }
  }
  return bodies;
}

void for_each_use_in_subgraphs(const ir::Node& node, const std::function<void(ir::Value*&)>& visit) {
  for (const ir::GraphPtr& body : subgraphs(node)) {
    for (ir::Node* inner : body->nodes) {
      inner->for_each_use(visit);
      for_each_use_in_subgraphs(*inner, visit);
    }
    for (ir::Value*& output : body->outputs) visit(output);
  }
}

}  // namespace opbridge::functionalization
