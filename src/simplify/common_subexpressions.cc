#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ir/queries.h"
#include "ir/uses.h"
#include "simplify/passes.h"

namespace opbridge::simplification {
namespace {

// Larger constants are weights of the model, which were already merged if they share their bytes.
constexpr size_t largest_compared = 256;

void append(std::string& key, const ir::AttributeValue& value) {
  std::visit(
      [&](const auto& item) {
        using T = std::decay_t<decltype(item)>;
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, bool>) {
          key += fmt::format("i{}", item);
        } else if constexpr (std::is_same_v<T, double>) {
          key += fmt::format("f{:a}", item);
        } else if constexpr (std::is_same_v<T, std::string>) {
          key += fmt::format("s{}:{}", item.size(), item);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          key += fmt::format("I{}", fmt::join(item, ","));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          for (double number : item) key += fmt::format("F{:a}", number);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const ir::Weight>>) {
          key += fmt::format("t{}[{}]", static_cast<int>(item->element_type), fmt::join(item->dims, ","));
          key.append(reinterpret_cast<const char*>(item->bytes.data()), item->bytes.size());
        } else {
          key += fmt::format("@{}", static_cast<const void*>(&value));  // makes the key unique
        }
      },
      value);
}

std::string key_of(const ir::Node& node) {
  std::string key = node.op;
  for (const ir::Value* input : node.inputs) key += fmt::format("|{}", static_cast<const void*>(input));
  for (const ir::Attribute& attribute : node.attributes) {
    key += "|" + attribute.name + "=";
    append(key, attribute.value);
  }
  return key;
}

bool is_random(const ir::Node& node) {
  return node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial" ||
         node.op == "Dropout";
}

}  // namespace

bool merge_common_subexpressions(ir::Graph& graph) {
  ir::Uses uses(graph);
  for (ir::Graph* each : ir::all_graphs(graph)) {
    std::unordered_map<std::string, ir::Value*> constants;
    for (ir::Value* value : each->initializers) {
      const ir::Weight& weight = *value->weight;
      if (weight.bytes.size() > largest_compared) continue;
      std::string key =
          fmt::format("{}[{}]", static_cast<int>(weight.element_type), fmt::join(weight.dims, ","));
      key.append(reinterpret_cast<const char*>(weight.bytes.data()), weight.bytes.size());
      const auto [entry, fresh] = constants.emplace(std::move(key), value);
      if (!fresh) uses.replace(value, entry->second);
    }
  }
  // Merge within each graph only: another body may not run at all.
  std::unordered_map<const ir::Graph*, std::unordered_map<std::string, ir::Node*>> nodes_of;
  return uses.for_each_node([&](ir::Graph& holder, ir::Node& node) {
    std::unordered_map<std::string, ir::Node*>& nodes = nodes_of[&holder];
    const bool is_output =
        std::ranges::any_of(node.outputs, [&](const ir::Value* value) { return uses.is_output(value); });
    if (is_output || is_random(node) || !ir::is_standard(node)) return;
    const auto [entry, fresh] = nodes.emplace(key_of(node), &node);
    if (fresh || entry->second->outputs.size() != node.outputs.size()) return;
    for (size_t i = 0; i < node.outputs.size(); ++i) uses.replace(node.outputs[i], entry->second->outputs[i]);
  });
}

}  // namespace opbridge::simplification
