#include <algorithm>

#include "opbridge/frontend.h"

namespace opbridge {

ir::Value* ProgramBuilder::input(std::string name, ir::Type type) {
  return graph_.add_input(std::move(name), std::move(type));
}

ir::Value* ProgramBuilder::weight(std::string name, ir::Weight weight) {
  std::vector<ir::Value*>& candidates = weights_[weight.bytes.data()];
  for (ir::Value* candidate : candidates) {
    const ir::Weight& known = *candidate->weight;
    if (known.bytes.size() == weight.bytes.size() && known.dims == weight.dims &&
        known.element_type == weight.element_type) {
      return candidate;
    }
  }
  return candidates.emplace_back(graph_.add_initializer(std::move(name), std::move(weight)));
}

ir::Node* ProgramBuilder::call(std::string op, std::vector<ir::Attribute> arguments, ir::Source source) {
  ir::Node* node = graph_.add_node(std::move(op));
  node->attributes = std::move(arguments);
  node->source = std::move(source);
  return node;
}

ir::Value* ProgramBuilder::result(ir::Node* node, std::string name, ir::Type type) {
  return graph_.add_output_of(node, std::move(name), std::move(type));
}

void ProgramBuilder::output(ir::Value* value, std::string name) {
  const bool named_elsewhere = std::ranges::find(graph_.outputs, value) != graph_.outputs.end();
  if (!name.empty() && value->producer != nullptr && !named_elsewhere) value->name = std::move(name);
  graph_.outputs.push_back(value);
}

ir::Graph ProgramBuilder::finish() && {
  ir::verify(graph_);
  return std::move(graph_);
}

}  // namespace opbridge
