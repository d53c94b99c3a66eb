#include "functionalize/outputs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace opbridge::functionalization {
namespace {

// The value, or a copy of it if its name is taken or must not change.
ir::Value* own_output(Memory& memory, ir::Value* value, const ir::Value& form,
                      std::unordered_set<const ir::Value*>& named) {
  if (value->producer != nullptr && named.insert(value).second) return value;
  return memory.emitter().emit("aten::alias", {{"self", value}}, value->tensor_type(), form);
}

std::string unused_name(const ir::Graph& graph, std::string name) {
  const auto has_name = [&](const ir::Value* value) { return value->name == name; };
  while (std::ranges::any_of(graph.inputs, has_name) || std::ranges::any_of(graph.initializers, has_name) ||
         std::ranges::any_of(graph.outputs, has_name)) {
    name += '_';
  }
  return name;
}

}  // namespace

void return_outputs(Memory& memory) {
  ir::Graph& graph = memory.graph();
  ir::Node end;
  end.op = "return";
  memory.begin(end);

  std::vector<ir::Value*> results;
  std::unordered_set<const ir::Value*> named;  // values that have the name of an output
  for (ir::Value* output : graph.outputs) {
    if (results.emplace_back(memory.read(output)) == output) named.insert(output);
  }
  std::unordered_map<const ir::Value*, ir::Value*> replaced;
  for (size_t i = 0; i < results.size(); ++i) {
    ir::Value*& output = graph.outputs[i];
    if (results[i] == output) continue;
    const auto [entry, is_first] = replaced.try_emplace(output, results[i]);
    if (is_first && output->producer != nullptr) {
      entry->second = own_output(memory, results[i], *output, named);
      std::swap(entry->second->name, output->name);
    }
    output = entry->second;
  }
  named.insert(graph.outputs.begin(), graph.outputs.end());
  for (const Storage* storage : memory.changed()) {
    ir::Value* output =
        own_output(memory, memory.read(const_cast<ir::Value*>(storage->owner)), *storage->owner, named);
    output->name = unused_name(graph, storage->owner->name + "_out");
    graph.outputs.push_back(output);
  }
}

}  // namespace opbridge::functionalization
