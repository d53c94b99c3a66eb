#include "pipeline/choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/uses.h"
#include "opbridge/frontend.h"
#include "support/unique_name.h"

namespace opbridge {

namespace {

constexpr std::string_view choice_op = "opbridge::choice";
constexpr const char* parts[] = {"condition", "if_true", "if_false"};

std::string text_of(const ir::Value& value) {
  const ir::TensorType type = ir::as_tensor_type(value);
  return type.ranked() ? fmt::format("{} of rank {}", name(type.element_type), type.rank())
                       : std::string(name(type.element_type));
}

void check_outputs(const std::vector<ir::Value*>& if_true, const std::vector<ir::Value*>& if_false) {
  if (if_true.size() != if_false.size()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the model returns or changes {} or {} tensors, depending on its sizes",
                            if_true.size(), if_false.size()));
  }
  for (size_t i = 0; i < if_true.size(); ++i) {
    const std::string one = text_of(*if_true[i]), other = text_of(*if_false[i]);
    if (one == other) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("output {} of the model is {} or {}, depending on its sizes", i, one, other));
  }
}

std::vector<Dim> sizes_of(const ir::Value& input) {
  if (const auto* number = std::get_if<ir::ScalarType>(&input.type)) return {number->value};
  return *input.tensor_type().dims;
}

bool is_symbol(const Dim& dim) { return !dim.is_static() && dim.expr()->kind == Expr::Kind::symbol; }

// A way may fix sizes, and have one of the program's symbols for sizes that are equal in it.
void check_inputs(const std::vector<ir::Value*>& inputs, const std::vector<ir::Value*>& of_way) {
  std::vector<Dim> known;
  for (const ir::Value* input : inputs) std::ranges::copy(sizes_of(*input), std::back_inserter(known));
  const auto may_be = [&](const Dim& size, const Dim& there) {
    return size == there || there.is_static() ||
           (is_symbol(size) && is_symbol(there) && std::ranges::find(known, there) != known.end());
  };
  const auto are_like = [&](const ir::Value* input, const ir::Value* there) {
    return input->name == there->name && input->type.index() == there->type.index() &&
           ir::as_tensor_type(*input).element_type == ir::as_tensor_type(*there).element_type &&
           std::ranges::equal(sizes_of(*input), sizes_of(*there), may_be);
  };
  if (!std::ranges::equal(inputs, of_way, are_like))
    throw Error(ErrorCode::unsupported, "the inputs of the model have other sizes in its branches");
}

// A program of the choice without choices in it.
const ir::Graph& first_way(const ir::Graph& graph) {
  return is_choice(graph) ? first_way(*std::get<ir::GraphPtr>(*graph.nodes[0]->find("if_true"))) : graph;
}

class Joiner {
 public:
  Joiner(OnnxModel condition, const std::vector<ir::Value*>& outputs) : model_(std::move(condition)) {
    for (const ir::Value* input : root().inputs) {
      taken_.try_emplace(input->name);
      note_symbols(*input);
    }
    for (const ir::Value* output : outputs) taken_.try_emplace(output->name);
    for (ir::Value* constant : root().initializers) {
      constant->name = unused(constant->name);
      weights_[key_of(*constant->weight)].push_back(constant);
    }
    rename_results(root());
    predicate_ = std::exchange(root().outputs, {}).at(0);
  }

  // Takes the model as the body of a branch.
  ir::GraphPtr branch(OnnxModel way, std::string name) {
    take_imports(way);
    auto body = std::make_shared<ir::Graph>(std::move(way.graph));
    body->name = std::move(name);
    std::unordered_map<const ir::Value*, ir::Value*> outside;
    for (ir::Value* input : std::exchange(body->inputs, {})) outside[input] = input_like(*input);
    for (ir::Value* constant : std::exchange(body->initializers, {}))
      outside[constant] = weight_like(*constant);
    const auto read_outside = [&](ir::Value*& value) {
      if (const auto found = outside.find(value); found != outside.end()) value = found->second;
    };
    for (ir::Graph* graph : ir::all_graphs(*body)) {
      for (ir::Node* node : graph->nodes) node->for_each_use(read_outside);
      for (ir::Value*& output : graph->outputs) read_outside(output);
      for (ir::Value* input : graph->inputs) input->name = unused(input->name);
      for (ir::Value* constant : graph->initializers) constant->name = unused(constant->name);
      rename_results(*graph);
    }
    make_results(*body);
    return body;
  }

  OnnxModel finish(ir::GraphPtr if_true, ir::GraphPtr if_false, const std::vector<std::string>& names) {
    ir::Node* node = root().add_node("If");
    node->name = unused("sizes");
    node->inputs = {predicate_};
    for (size_t i = 0; i < names.size(); ++i) {
      ir::TensorType type = common_type(*if_true->outputs[i], *if_false->outputs[i], names[i]);
      root().outputs.push_back(root().add_output_of(node, names[i], std::move(type)));
    }
    node->set("then_branch", std::move(if_true));
    node->set("else_branch", std::move(if_false));
    return std::move(model_);
  }

 private:
  using WeightKey = std::pair<ElementType, std::vector<int64_t>>;

  static WeightKey key_of(const ir::Weight& weight) { return {weight.element_type, weight.dims}; }

  static bool has_bytes(const ir::Weight& weight, std::span<const std::byte> bytes) {
    return weight.bytes.data() == bytes.data() || std::ranges::equal(weight.bytes, bytes);
  }

  ir::Graph& root() { return model_.graph; }

  std::string unused(std::string_view name) { return support::unique_name(taken_, name); }

  void rename_results(ir::Graph& graph) {
    for (ir::Node* node : graph.nodes) {
      for (ir::Value* output : node->outputs) {
        if (!output->name.empty()) output->name = unused(output->name);
        note_symbols(*output);
      }
    }
  }

  // The results of a branch must be made in it.
  void make_results(ir::Graph& body) {
    std::unordered_set<const ir::Value*> made;
    for (const ir::Node* node : body.nodes) made.insert(node->outputs.begin(), node->outputs.end());
    for (ir::Value*& output : body.outputs) {
      if (made.contains(output)) continue;
      ir::Node* node = body.add_node("Identity");
      node->inputs = {output};
      output = body.add_output_of(node, unused(output->name), output->type);
    }
  }

  void note_symbols(const ir::Value& value) {
    const auto* type = std::get_if<ir::TensorType>(&value.type);
    if (type == nullptr || !type->dims) return;
    for (const Dim& dim : *type->dims) {
      for (std::string& symbol : dim.symbols()) symbols_.insert(std::move(symbol));
    }
  }

  ir::Value* input_like(const ir::Value& input) {
    const auto found = std::ranges::find(root().inputs, input.name, &ir::Value::name);
    if (found != root().inputs.end()) return *found;
    taken_.try_emplace(input.name);
    return root().add_input(input.name, input.type);
  }

  ir::Value* weight_like(const ir::Value& constant) {
    // A simplification may have made the same weight in both ways.
    std::vector<ir::Value*>& known = weights_[key_of(*constant.weight)];
    const auto same = std::ranges::find_if(
        known, [&](const ir::Value* each) { return has_bytes(*each->weight, constant.weight->bytes); });
    if (same != known.end()) return *same;
    return known.emplace_back(root().add_initializer(unused(constant.name), *constant.weight));
  }

  void take_imports(OnnxModel& way) {
    model_.opset_imports.insert(way.opset_imports.begin(), way.opset_imports.end());
    for (OnnxFunction& function : way.functions) {
      const auto known = std::ranges::find_if(model_.functions, [&](const OnnxFunction& each) {
        return each.domain == function.domain && each.name == function.name;
      });
      if (known == model_.functions.end()) {
        model_.functions.push_back(std::move(function));
      } else if (known->bytes != function.bytes) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("the ONNX function {}::{} has several bodies, depending on the model's sizes",
                                function.domain, function.name));
      }
    }
    for (auto& [name, weight] : way.defaults) {
      const auto known =
          std::ranges::find(model_.defaults, name, [](const auto& each) { return each.first; });
      if (known == model_.defaults.end()) model_.defaults.emplace_back(name, std::move(weight));
    }
  }

  // The type of both; an axis whose size differs gets a symbol of its own.
  ir::TensorType common_type(const ir::Value& if_true, const ir::Value& if_false, const std::string& name) {
    ir::TensorType type = if_true.tensor_type();
    const ir::TensorType& other = if_false.tensor_type();
    if (!type.ranked() || !other.ranked()) return {type.element_type, std::nullopt};
    for (size_t axis = 0; axis < type.rank(); ++axis) {
      Dim& dim = (*type.dims)[axis];
      if (dim == (*other.dims)[axis]) continue;
      std::string symbol = fmt::format("{}_dim_{}", name, axis);
      while (!symbols_.insert(symbol).second) symbol += '_';
      dim = Dim::symbol(symbol);
    }
    return type;
  }

  OnnxModel model_;
  ir::Value* predicate_ = nullptr;
  support::NameCounts taken_;  // the names of values
  std::set<std::string> symbols_;
  std::map<WeightKey, std::vector<ir::Value*>> weights_;
};

}  // namespace

ir::Graph choose(ir::Graph&& condition, ir::Graph&& if_true, ir::Graph&& if_false) {
  for (const ir::Graph* way : {&if_true, &if_false}) check_inputs(condition.inputs, way->inputs);
  check_outputs(first_way(if_true).outputs, first_way(if_false).outputs);
  ir::Graph graph;
  for (const ir::Value* input : condition.inputs) graph.add_input(input->name, input->type);
  ir::Node* node = graph.add_node(std::string(choice_op));
  ir::Graph* given[] = {&condition, &if_true, &if_false};
  for (size_t i = 0; i < std::size(parts); ++i)
    node->set(parts[i], std::make_shared<ir::Graph>(std::move(*given[i])));
  return graph;
}

bool is_choice(const ir::Graph& graph) { return graph.nodes.size() == 1 && graph.nodes[0]->op == choice_op; }

Choice parts_of(ir::Graph choice) {
  const auto part = [&](size_t index) {
    return std::move(*std::get<ir::GraphPtr>(*choice.nodes[0]->find(parts[index])));
  };
  return {part(0), part(1), part(2)};
}

OnnxModel join(OnnxModel condition, OnnxModel if_true, OnnxModel if_false) {
  check_outputs(if_true.graph.outputs, if_false.graph.outputs);
  if (if_true.changed != if_false.changed) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the model changes other inputs or buffers depending on its sizes: its outputs would "
                    "be {} or {}",
                    fmt::join(if_true.changed, ", "), fmt::join(if_false.changed, ", ")));
  }
  std::vector<std::string> names;
  for (const ir::Value* output : if_true.graph.outputs) names.push_back(output->name);
  std::vector<std::string> changed = if_true.changed;
  Joiner joiner(std::move(condition), if_true.graph.outputs);
  ir::GraphPtr one = joiner.branch(std::move(if_true), "then_branch");
  ir::GraphPtr other = joiner.branch(std::move(if_false), "else_branch");
  OnnxModel model = joiner.finish(std::move(one), std::move(other), names);
  model.changed = std::move(changed);
  return model;
}

}  // namespace opbridge
