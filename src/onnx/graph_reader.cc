#include "onnx/graph_reader.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "onnx/field_reader.h"
#include "onnx/proto_fields.h"
#include "onnx/schema_table.h"
#include "onnx/type_reader.h"

namespace opbridge::onnx {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::invalid_file, what); }

class GraphReader {
 public:
  explicit GraphReader(TensorReader& tensors) : tensors_(tensors) {}

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
    if (++nesting_ > most_nesting) fail("graphs are nested too deep");
    Scope scope{outer, {}};
    Types types;
    std::vector<std::string_view> inputs;
    std::vector<std::string_view> outputs;
    // Values are declared after the nodes that use them, so the nodes wait for a second pass.
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
      if (scope.values.contains(name) && scope.values[name]->weight != nullptr) continue;
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
    for (const std::string_view each : attributes) node->attributes.push_back(read_attribute(each, scope));
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
  }

  std::shared_ptr<const ir::Weight> read_tensor(std::string_view message) {
    return std::make_shared<const ir::Weight>(tensors_.read(message).weight);
  }

  ir::GraphPtr read_subgraph(std::string_view message, const Scope& scope) {
    auto graph = std::make_shared<ir::Graph>();
    fill(*graph, message, &scope);
    return graph;
  }

  ir::Attribute read_attribute(std::string_view message, const Scope& scope) {
    using proto::Attribute;
    ir::Attribute result;
    AttributeKind kind = AttributeKind::undefined;
    ir::AttributeValue single;
    std::vector<double> floats;
    std::vector<int64_t> ints;
    std::vector<std::string> strings;
    std::vector<std::shared_ptr<const ir::Weight>> tensors;
    std::vector<ir::GraphPtr> graphs;
    for (FieldReader<Attribute> field(message); field.next();) {
      switch (field.number()) {
        case Attribute::name:
          result.name = field.bytes();
          break;
        case Attribute::type:
          kind = attribute_kind(field.integer());
          break;
        case Attribute::f:
          single = static_cast<double>(field.float32());
          break;
        case Attribute::i:
          single = field.integer();
          break;
        case Attribute::s:
          single = std::string(field.bytes());
          break;
        case Attribute::t:
          single = read_tensor(field.bytes());
          break;
        case Attribute::g:
          single = read_subgraph(field.bytes(), scope);
          break;
        case Attribute::floats:
          append_floats(field.fixed32s(), floats);
          break;
        case Attribute::ints:
          field.integers([&](int64_t value) { ints.push_back(value); });
          break;
        case Attribute::strings:
          strings.emplace_back(field.bytes());
          break;
        case Attribute::tensors:
          tensors.push_back(read_tensor(field.bytes()));
          break;
        case Attribute::graphs:
          graphs.push_back(read_subgraph(field.bytes(), scope));
          break;
        default:
          break;
      }
    }
    // A field at its default value may be left out of the file; models of the first IR versions leave out the
    // kind.
    const auto single_or = [&]<class T>(T fallback) {
      if (std::holds_alternative<std::monostate>(single)) return ir::AttributeValue(std::move(fallback));
      if (!std::holds_alternative<T>(single)) {
        fail(fmt::format("attribute {} is not of the kind that it names", result.name));
      }
      return single;
    };
    switch (kind) {
      case AttributeKind::float_:
        result.value = single_or(0.0);
        break;
      case AttributeKind::int_:
        result.value = single_or(int64_t{0});
        break;
      case AttributeKind::string:
        result.value = single_or(std::string());
        break;
      case AttributeKind::tensor:
        if (!std::holds_alternative<std::shared_ptr<const ir::Weight>>(single)) {
          fail(fmt::format("attribute {} has no tensor", result.name));
        }
        result.value = std::move(single);
        break;
      case AttributeKind::graph:
        if (!std::holds_alternative<ir::GraphPtr>(single)) {
          fail(fmt::format("attribute {} has no graph", result.name));
        }
        result.value = std::move(single);
        break;
      case AttributeKind::floats:
        result.value = std::move(floats);
        break;
      case AttributeKind::ints:
        result.value = std::move(ints);
        break;
      case AttributeKind::strings:
        result.value = std::move(strings);
        break;
      case AttributeKind::tensors:
        result.value = std::move(tensors);
        break;
      case AttributeKind::graphs:
        result.value = std::move(graphs);
        break;
      case AttributeKind::undefined:
        if (!std::holds_alternative<std::monostate>(single)) {
          result.value = std::move(single);
        } else if (!floats.empty()) {
          result.value = std::move(floats);
        } else if (!strings.empty()) {
          result.value = std::move(strings);
        } else {
          result.value = std::move(ints);
        }
        break;
      default:
        result.value = ir::Opaque{std::string(name(kind))};
        break;
    }
    return result;
  }

  static AttributeKind attribute_kind(int64_t number) {
    if (number < 0 || number > static_cast<int64_t>(AttributeKind::type_protos)) {
      fail(fmt::format("there is no attribute kind {}", number));
    }
    return static_cast<AttributeKind>(number);
  }

  static void append_floats(std::string_view bytes, std::vector<double>& floats) {
    for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
      float value = 0;
      bytes.copy(reinterpret_cast<char*>(&value), sizeof(value), at);
      floats.push_back(value);
    }
  }

  TensorReader& tensors_;
  TypeReader types_;
  int nesting_ = 0;
};

}  // namespace

ir::Graph read_graph(std::string_view message, TensorReader& tensors) {
  return GraphReader(tensors).read(message);
}

std::string_view normalized_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

std::string qualified_name(std::string_view domain, std::string_view op_type) {
  if (op_type.empty()) fail("a node has no operator");
  if (op_type.find("::") != std::string_view::npos) {
    fail(fmt::format("\"{}\" is no operator's name", op_type));
  }
  return domain.empty() ? std::string(op_type) : fmt::format("{}::{}", domain, op_type);
}

}  // namespace opbridge::onnx
