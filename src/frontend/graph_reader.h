// Reads the JSON of an exported program into a torch-level graph.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "frontend/stored_tensors.h"
#include "frontend/symbol_table.h"
#include "opbridge/frontend.h"
#include "support/json.h"
#include "support/unique_name.h"

namespace opbridge {

// Reads one program. torch/_export/serde/schema.py describes its JSON. These rules turn it into nodes and
// values:
//
// - `torch.ops.aten.add.Tensor` becomes `aten::add.Tensor`; the overload `default` is omitted.
//   `_operator.mul` becomes `_operator::mul`, and `torch.ops.higher_order.cond` becomes
//   `higher_order::cond`. Unnamed arguments, which only higher-order operators have, are named arg0, arg1, …
// - An integer computed from sizes becomes a Dim, not a value; the nodes that compute it are dropped. A node
//   that produces a new integer (`aten::item`) stays, and the ScalarType of its output names the symbol.
// - Floating-point and boolean scalars are values. Assertions are dropped, with everything that only they
//   use.
// - Regions that switch gradients, disable autocast or mark a part of the model
//   (`wrap_with_set_grad_enabled`, `wrap_with_autocast(enabled=False)`, `invoke_subgraph`) are inlined.
// - A returned integer or constant becomes a 0-d tensor, by `aten::scalar_tensor`; a returned None is
//   dropped. Where the program returns the new content of mutated inputs and buffers, an `aten::copy_` at the
//   end of the graph writes it to them instead.
class GraphReader {
 public:
  GraphReader(StoredTensors& tensors, SymbolTable::Ranges ranges)
      : tensors_(tensors), symbols_(std::move(ranges)) {}

  // `graph_module` and everything it points to must outlive the reader. Throws Error(invalid_file) if the
  // program contradicts itself, and Error(unsupported) if the IR cannot represent it.
  ir::Graph read(json::Object graph_module);

  // Describes an operator that is replaced by its body: the index of the argument that holds the body, and of
  // the first operand of the body. The operands are the last arguments.
  struct Region {
    size_t body, operands;
  };

 private:
  struct StoredWeight {
    std::string_view name;
  };
  struct Unusable {
    const char* what;
  };
  using Binding = std::variant<Unusable, ir::Value*, Dim, bool, double, StoredWeight>;

  // A graph of the JSON while it is read: the main graph, an operator's body, or an inlined graph.
  struct Scope {
    ProgramBuilder& builder;
    json::Object graph;
    std::unordered_map<std::string_view, json::Element>
        types{};  // the JSON of the types of tensors and scalars
    std::unordered_map<std::string_view, Binding> names{};
  };

  Scope open(ProgramBuilder& builder, json::Object graph);
  void read_inputs(Scope& scope, json::Array specs);
  void bind_input(Scope& scope, json::Tagged argument);
  void read_outputs(Scope& scope, json::Array specs);
  void write_back(Scope& scope, json::Tagged mutation, std::span<ir::Value* const> returned);

  void read_nodes(Scope& scope);
  void read_node(Scope& scope, json::Object node);
  bool bind_known_number(Scope& scope, json::Tagged output);
  void emit_result(Scope& scope, ir::Node* node, json::Tagged output);
  void inline_body(Scope& scope, json::Object node, Region region);
  ir::GraphPtr read_body(json::Object argument);

  const Binding& lookup(Scope& scope, std::string_view name) const;
  void bind_name(Scope& scope, json::Tagged argument, ir::AttributeValue value);
  ir::Value* tensor(Scope& scope, std::string_view name);
  std::string unique(std::string_view name);

  std::vector<ir::Attribute> read_arguments(Scope& scope, json::Array inputs);
  ir::AttributeValue read_argument(Scope& scope, json::Tagged argument);
  Dim read_integer(Scope& scope, json::Element element);
  ir::AttributeValue read_integers(Scope& scope, json::Array list);
  ir::AttributeValue read_number(Scope& scope, json::Element element);  // of floating-point or boolean type
  ir::AttributeValue read_numbers(Scope& scope, json::Array list);
  ir::Value* as_value(Scope& scope, ir::AttributeValue value, std::string_view name);
  json::Element type_of(const Scope& scope, std::string_view name) const;
  ir::TensorType tensor_type(const Scope& scope, std::string_view name);
  // Adds the strides and storage offset of the input of as_strided, which reads the storage by them.
  void add_layout(const Scope& scope, json::Array inputs, std::vector<ir::Attribute>& arguments);
  // Adds a node with the strides of an input or a weight that is not contiguous: a reshape may copy it.
  void note_layout(Scope& scope, std::string_view name, ir::Value* value);
  std::vector<Dim> strides_of(json::Object meta);
  Dim read_sym_int(json::Element element);

  StoredTensors& tensors_;
  SymbolTable symbols_;
  std::unordered_map<std::string_view, std::string_view> placeholders_;  // of parameters and buffers
  support::NameCounts taken_;                                            // names of values
};

}  // namespace opbridge
