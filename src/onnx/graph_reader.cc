#include "onnx/graph_reader.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "onnx/attribute_reader.h"
#include "onnx/field_reader.h"
#include "onnx/proto_fields.h"
#include "onnx/type_reader.h"

namespace opbridge::onnx {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::invalid_file, what); }

class GraphReader {
 public:
  GraphReader(TensorReader& tensors, std::vector<std::string>& overridable)
      : tensors_(tensors), overridable_(overridable) {}

  ir::Graph read(std::string_view message) {
    ir::Graph graph;
    fill(graph, message, nullptr);
    return graph;
  }

 private:
  struct Scope {
    const Scope* outer;
    std::unordered_map<std::string_view, ir::Value*> values;

    ir::Value* find(std::string_view name) const {
      for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
        if (const auto found = scope->values.find(name); found != scope->values.end()) return found->second;
      }
      return nullptr;
    }
    void define(std::string_view name, ir::Value* value) {
      if (name.empty()) fail("a value has no name");
      if (!values.emplace(name, value).second) fail(fmt::format("two values are named {}", name));
    }
    ir::Value* use(std::string_view name, std::string_view user) const {
      ir::Value* value = find(name);
      if (value == nullptr) fail(fmt::format("{} is used by {} before it is made", name, user));
      return value;
    }
  };

  using Types = std::unordered_map<std::string_view, ir::Type>;

  void fill(ir::Graph& graph, std::string_view message, const Scope* outer) {
    using proto::Graph;
    if (++nesting_ > most_nesting) fail("graphs are nested too deeply");
    Scope scope{outer, {}};
    Types types;
    std::vector<std::string_view> inputs;
    std::vector<std::string_view> outputs;
    // Values may be declared after the nodes that use them, so nodes are read in a second pass.
    for (FieldReader<Graph> field(message); field.next();) {
      switch (field.number()) {
        case Graph::name:
          graph.name = field.bytes();
          break;
        case Graph::initializer: {
          NamedWeight named = tensors_.read(field.bytes());
          scope.define(named.name, graph.add_initializer(std::string(named.name), std::move(named.weight)));
          break;
        }
        case Graph::sparse_initializer:
          throw Error(ErrorCode::unsupported, "sparse initializers cannot be read");
        case Graph::input:
          inputs.push_back(read_value_info(field.bytes(), types));
          break;
        case Graph::output:
          outputs.push_back(read_value_info(field.bytes(), types));
          break;
        case Graph::value_info:
          read_value_info(field.bytes(), types);
          break;
        default:
          break;
      }
    }
    for (const std::string_view name : inputs) {
      if (scope.values.contains(name) && scope.values[name]->weight != nullptr) {
        if (outer == nullptr) overridable_.emplace_back(name);
        continue;
      }
      scope.define(name, graph.add_input(std::string(name), type_of(name, types)));
    }
    for (FieldReader<Graph> field(message); field.next();) {
      if (field.number() == Graph::node) read_node(graph, field.bytes(), scope, types);
    }
    for (const std::string_view name : outputs) {
      graph.outputs.push_back(scope.use(name, "the graph's outputs"));
    }
    --nesting_;
  }

  static ir::Type type_of(std::string_view name, const Types& types) {
    const auto found = types.find(name);
    return found == types.end() ? ir::Type(ir::TensorType{}) : found->second;
  }

  std::string_view read_value_info(std::string_view message, Types& types) {
    std::string_view name;
    std::optional<std::string_view> type;
    for (FieldReader<proto::ValueInfo> field(message); field.next();) {
      if (field.number() == proto::ValueInfo::name) name = field.bytes();
      if (field.number() == proto::ValueInfo::type) type = field.bytes();
    }
    if (type) types.insert_or_assign(name, types_.read(*type));
    return name;
  }

  void read_node(ir::Graph& graph, std::string_view message, Scope& scope, const Types& types) {
    using proto::Node;
    std::vector<std::string_view> inputs;
    std::vector<std::string_view> outputs;
    std::vector<std::string_view> attributes;
    std::string_view op_type;
    std::string_view domain;
    ir::Node* node = graph.make_node({});
    for (FieldReader<Node> field(message); field.next();) {
      switch (field.number()) {
        case Node::input:
          inputs.push_back(field.bytes());
          break;
        case Node::output:
          outputs.push_back(field.bytes());
          break;
        case Node::name:
          node->name = field.bytes();
          break;
        case Node::op_type:
          op_type = field.bytes();
          break;
        case Node::domain:
          domain = normalized_domain(field.bytes());
          break;
        case Node::overload:
          if (!field.bytes().empty()) {
            throw Error(ErrorCode::unsupported, "overloaded functions cannot be read");
          }
          break;
        case Node::attribute:
          attributes.push_back(field.bytes());
          break;
        case Node::doc_string:
          if (node->source.line.empty()) node->source.line = field.bytes();
          break;
        case Node::metadata_props:
          read_source(field.bytes(), node->source);
          break;
        default:
          break;
      }
    }
    node->op = qualified_name(domain, op_type);
    for (const std::string_view name : inputs) {
      node->inputs.push_back(name.empty() ? nullptr : scope.use(name, node->op));
    }
    const auto read_body = [&](std::string_view body) { return read_subgraph(body, scope); };
    for (const std::string_view each : attributes) {
      node->attributes.push_back(read_attribute(each, tensors_, types_, read_body));
    }
    for (const std::string_view name : outputs) {
      ir::Value* value = graph.add_output_of(node, std::string(name), type_of(name, types));
      if (!name.empty()) scope.define(name, value);
    }
    graph.nodes.push_back(node);
  }

  static void read_source(std::string_view message, ir::Source& source) {
    std::string_view key;
    std::string_view value;
    for (FieldReader<proto::StringStringEntry> field(message); field.next();) {
      if (field.number() == proto::StringStringEntry::key) key = field.bytes();
      if (field.number() == proto::StringStringEntry::value) value = field.bytes();
    }
    if (key == proto::source_line_key) source.line = value;
    if (key == proto::source_scope_key) source.scope = value;
    if (key == proto::source_mapping_key) source.by_user = value == "user";
    if (key == proto::source_rewritten_key) source.rewritten = value;
    if (const size_t space = value.rfind(' '); key == proto::source_call_key && space != value.npos) {
      source.call = value.substr(0, space);
      source.op = value.substr(space + 1);
    }
  }

  ir::GraphPtr read_subgraph(std::string_view message, const Scope& scope) {
    auto graph = std::make_shared<ir::Graph>();
    fill(*graph, message, &scope);
    return graph;
  }

  TensorReader& tensors_;
  std::vector<std::string>& overridable_;
  TypeReader types_;
  int nesting_ = 0;
};

}  // namespace

ir::Graph read_graph(std::string_view message, TensorReader& tensors, std::vector<std::string>& overridable) {
  return GraphReader(tensors, overridable).read(message);
}

std::string_view normalized_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

std::string qualified_name(std::string_view domain, std::string_view op_type) {
  if (op_type.empty()) fail("a node has no operator");
  if (op_type.find("::") != std::string_view::npos) {
    fail(fmt::format("\"{}\" is not an operator name", op_type));
  }
  return domain.empty() ? std::string(op_type) : fmt::format("{}::{}", domain, op_type);
}

}  // namespace opbridge::onnx
