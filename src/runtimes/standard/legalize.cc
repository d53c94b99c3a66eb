#include "runtimes/standard/legalize.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "builder/exact_floats.h"
#include "builder/stage.h"
#include "ir/dead_code.h"
#include "ir/inconsistent.h"
#include "ir/uses.h"
#include "onnx/function_writer.h"
#include "onnx/model_reader.h"
#include "runtimes/standard/bodies.h"
#include "runtimes/standard/transposed_weights.h"
#include "support/unique_name.h"

namespace opbridge::standard {
namespace {

// The domains of the ONNX standard itself.
bool is_standard(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx" || domain == "ai.onnx.ml" ||
         domain == "ai.onnx.preview.training";
}

std::string_view domain_of(const std::string& op) { return ir::OpName(op).domain; }

// The body of one node, under construction. Its inputs and constants are values of `graph`.
class Body final : public ValueMap, public BodyLowering {
 public:
  Body(const Symbolic& symbolic, const ir::Node& node, int opset) : node_(node), g_(graph, opset) {
    call_.op = node.source.op.empty() ? node.op : node.source.op;
    call_.source.line = node.source.line;
    // Runtimes that inline a function may keep the names in its subgraphs, which must not be those of other
    // nodes.
    const ir::OpName name(node.op);
    call_.source.scope = fmt::format("{}.{}", name.domain, name.type);
    call_.outputs = node.outputs;
    add_arguments(*symbolic.schema);
    BuilderStage(g_).set_call(&call_, symbolic.key, true);
    const std::vector<Value> results =
        symbolic.function(SymbolicCall{g_, bind(*symbolic.schema, call_), *this, call_, *this});
    return_results(results);
    ir::remove_dead_code(graph);
  }

  ir::Graph graph;

 private:
  // The node's inputs are the schema's tensors, in order; a list of tensors takes all that are left.
  void add_arguments(const OperatorSchema& schema) {
    size_t next = 0;
    for (const SchemaArgument& argument : schema.arguments) {
      if (argument.type.kind == SchemaType::Kind::tensor) {
        std::vector<ir::Value*> list;
        while (argument.type.list && next < node_.inputs.size()) {
          list.push_back(add_input(fmt::format("{}_{}", argument.name, list.size()), next++));
        }
        if (argument.type.list) {
          call_.set(argument.name, list);
        } else if (ir::Value* input = next < node_.inputs.size() ? add_input(argument.name, next) : nullptr) {
          call_.set(argument.name, input);
        } else {
          call_.set(argument.name, std::monostate());
        }
        ++next;
      } else if (std::optional<ir::AttributeValue> value = builder::exact_attribute(node_, argument.name)) {
        call_.set(argument.name, *std::move(value));
      }
    }
  }

  // Null if the node omits the input. The function has it nevertheless.
  ir::Value* add_input(std::string name, size_t index) {
    BuilderStage(g_).reserve_name(name);
    const ir::Value* given = node_.inputs[index];
    ir::Value* input = graph.add_input(std::move(name), given ? given->type : ir::Type());
    if (given) g_.bind_dims(input);
    return given ? input : nullptr;
  }

  void return_results(const std::vector<Value>& results) {
    if (results.size() != node_.outputs.size()) {
      g_.refuse(fmt::format("the body of {} gives {} values, the node has {}", node_.op, results.size(),
                            node_.outputs.size()));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      Value result = results[i];
      const auto& type = std::get<ir::TensorType>(node_.outputs[i]->type);
      if (type.element_type != ElementType::undefined && type.element_type != result.element_type()) {
        g_.refuse(fmt::format("the body of {} gives {}, the node {}", node_.op, name(result.element_type()),
                              name(type.element_type)));
      }
      const bool is_new =
          result.get()->producer && std::ranges::find(graph.outputs, result.get()) == graph.outputs.end();
      graph.outputs.push_back((is_new ? result : g_.op("Identity", result)).get());
    }
  }

  // The call's values are the body's own.
  Value operator[](const ir::Value* value) const override { return Value(const_cast<ir::Value*>(value)); }

  std::vector<Value> lower_body(const ir::Graph&, GraphBuilder& g, std::span<const Value>) override {
    g.refuse("a body cannot call PyTorch's control flow");
  }

  const ir::Node& node_;
  ir::Node call_;
  GraphBuilder g_;
};

class Legalizer {
 public:
  Legalizer(OnnxModel& model, const runtimes::Refuse& refuse)
      : model_(model), refuse_(refuse), names_(model.graph) {
    for (const OnnxFunction& function : model.functions) add_known(function.domain + "::" + function.name);
  }

  void run() {
    check_functions();
    for (ir::Graph* graph : ir::all_graphs(model_.graph)) legalize(*graph, model_.graph);
    drop_unused_imports();
  }

 private:
  void add_known(const std::string& name) {
    functions_.insert(name);
    taken_.try_emplace(name, 0);
  }

  // A function that a symbolic function added may call other functions.
  void check_functions() {
    for (const OnnxFunction& function : model_.functions) {
      for (const std::string& op : onnx::operators_of(function)) {
        if (is_standard(domain_of(op)) || functions_.contains(op)) continue;
        throw Error(
            ErrorCode::unsupported,
            fmt::format("the ONNX function {}::{} calls {}, which is neither standard nor a function; "
                        "export with target=\"onnxruntime\"",
                        function.domain, function.name, op));
      }
    }
  }

  // `root` holds the constants of `graph`.
  void legalize(ir::Graph& graph, ir::Graph& root) {
    for (ir::Node* node : graph.nodes) {
      if (is_standard(domain_of(node->op)) || functions_.contains(node->op)) continue;
      try {
        ir::of_consistent_call(*node, [&] { replace(*node, root); });
      } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) throw;
        refuse_(*node, error);
      }
    }
  }

  void replace(ir::Node& node, ir::Graph& root) {
    Body body(body_of(node), node, model_.opset);
    for (ir::Graph* graph : ir::all_graphs(body.graph)) legalize(*graph, body.graph);
    if (!inline_single(node, body.graph, root)) node.op = function_of(node, body.graph);
  }

  const Symbolic& body_of(const ir::Node& node) const {
    if (const Symbolic* found = bodies().find(node.op, model_.opset)) return *found;
    if (const std::optional<int> first = bodies().first_opset(node.op)) {
      throw runtimes::refusal(node,
                              fmt::format("{} has a body of standard operators from opset {} on; export with "
                                          "opset_version={}",
                                          node.op, *first, *first));
    }
    if (domain_of(node.op) == "opbridge") {
      throw runtimes::refusal(
          node,
          fmt::format("{} has no body of standard operators; export with target=\"onnxruntime\"", node.op));
    }
    throw runtimes::refusal(
        node, fmt::format("{} is not an operator of the ONNX standard; map it to standard operators, add a "
                          "function of this name (g.onnxscript_op; in C++ g.add_function), or export with "
                          "target=\"onnxruntime\"",
                          node.op));
  }

  // If the body is one node, `node` becomes that node. Returns whether it did.
  bool inline_single(ir::Node& node, const ir::Graph& body, ir::Graph& root) {
    if (body.nodes.size() != 1) return false;
    const ir::Node& only = *body.nodes.front();
    if (!only.bodies().empty() || only.outputs != body.outputs) return false;
    std::unordered_map<const ir::Value*, ir::Value*> outside;
    for (size_t i = 0; i < body.inputs.size(); ++i) outside[body.inputs[i]] = node.inputs[i];
    for (const ir::Value* constant : body.initializers) {
      std::string name = node.outputs[0]->name + ":" + constant->name;
      outside[constant] = root.add_initializer(names_.unused(std::move(name)), *constant->weight);
    }
    node.inputs.clear();
    for (const ir::Value* input : only.inputs) node.inputs.push_back(input ? outside.at(input) : nullptr);
    node.op = only.op;
    node.attributes = only.attributes;
    return true;
  }

  // The name of the function with this body; made unless the model has it already.
  std::string function_of(const ir::Node& node, ir::Graph& body) {
    const ir::OpName op(node.op);
    std::map<std::string, int> imports;
    ir::for_each_node(body, [&](ir::Graph&, ir::Node& each) {
      const std::string domain(domain_of(each.op));
      imports[domain] = domain.empty() ? model_.opset : model_.opset_imports.at(domain);
    });
    const int version = model_.opset_imports.at(std::string(op.domain));
    const onnx::FunctionHead head{std::string(op.domain), std::string(op.type), version,
                                  attribute_names(node)};
    const OnnxFunction unnamed = onnx::make_function(head, body, imports);
    const auto [known, is_new] = made_.try_emplace(unnamed.bytes);
    if (!is_new) return known->second;
    known->second = support::unique_name(taken_, node.op);
    onnx::FunctionHead named = head;
    named.name = ir::OpName(known->second).type;
    model_.functions.push_back(onnx::make_function(named, body, imports));
    return known->second;
  }

  static std::vector<std::string> attribute_names(const ir::Node& node) {
    std::vector<std::string> names;
    for (const ir::Attribute& attribute : node.attributes) names.push_back(attribute.name);
    return names;
  }

  void drop_unused_imports() {
    std::set<std::string, std::less<>> used{""};
    for (const OnnxFunction& function : model_.functions) {
      used.insert(function.domain);
      for (const std::string& op : onnx::operators_of(function)) used.emplace(domain_of(op));
    }
    ir::for_each_node(model_.graph, [&](ir::Graph&, ir::Node& node) { used.emplace(domain_of(node.op)); });
    std::erase_if(model_.opset_imports, [&](const auto& import) { return !used.contains(import.first); });
  }

  OnnxModel& model_;
  const runtimes::Refuse& refuse_;
  ir::Names names_;
  std::set<std::string, std::less<>> functions_;  // that symbolic functions added: "domain::name"
  support::NameCounts taken_;                     // the names of these and of those made here
  std::map<std::string, std::string>
      made_;  // bytes of a function that has its operator's name → its final name
};

}  // namespace

void legalize(OnnxModel& model, const runtimes::Refuse& refuse) {
  transpose_quantized_weights(model.graph);
  Legalizer(model, refuse).run();
}

}  // namespace opbridge::standard
