#include "ir/rewrite_log.h"

#include <functional>
#include <string>

#include "ir/uses.h"

namespace opbridge::ir {
namespace {

// A number that changes with the operator, the attributes and the weights among the inputs.
size_t fingerprint(const Node& node) {
  size_t number = std::hash<std::string>()(node.op);
  const auto add = [&](size_t part) { number = number * 1099511628211U ^ part; };
  for (const Value* input : node.inputs) {
    if (input != nullptr && input->weight != nullptr) add(std::hash<const void*>()(input->weight));
  }
  for (const Attribute& attribute : node.attributes) {
    add(std::hash<std::string>()(attribute.name));
    const bool is_number = std::holds_alternative<int64_t>(attribute.value) ||
                           std::holds_alternative<std::vector<int64_t>>(attribute.value) ||
                           std::holds_alternative<double>(attribute.value);
    if (is_number) add(std::hash<std::string>()(str(attribute.value)));
  }
  return number;
}

}  // namespace

RewriteLog::RewriteLog(Graph& graph) : graph_(graph) {
  for_each_node(graph_, [&](Graph&, Node& node) { known_[&node] = fingerprint(node); });
}

void RewriteLog::note(std::string_view rewrite) {
  for_each_node(graph_, [&](Graph&, Node& node) {
    const size_t now = fingerprint(node);
    const auto [entry, is_new] = known_.try_emplace(&node, now);
    if (!is_new && entry->second == now) return;
    entry->second = now;
    std::string& rewrites = node.source.rewritten;
    if (rewrites.find(rewrite) != std::string::npos) return;
    if (!rewrites.empty()) rewrites += ", ";
    rewrites += rewrite;
  });
}

}  // namespace opbridge::ir
