// From the JSON of an exported program to a torch-level graph.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "frontend/stored_tensors.h"
#include "frontend/symbol_table.h"
#include "opbridge/frontend.h"
#include "support/json.h"
#include "support/unique_name.h"

namespace opbridge {

// Reads one program. What the JSON holds is described in torch/_export/serde/schema.py; the rules by which it
// becomes nodes and values:
//
// - `torch.ops.aten.add.Tensor` is `aten::add.Tensor`, the overload `default` is left out; `_operator.mul` is
//   `_operator::mul`, `torch.ops.higher_order.cond` is `higher_order::cond`. Arguments without a name, which
//   only higher-order operators have, are named arg0, arg1, …
// - An integer that is made of sizes is no value but a Dim, wherever it is used; the nodes that compute it
// are
//   left out. A node that brings a new number (`aten::item`) stays, and its output has a ScalarType that
//   names it.
// - Numbers of floating-point or boolean type are values. Assertions are left out, and with them what only
// they
//   use.
// - Regions that switch gradients, disable autocast or mark a part of the model
// (`wrap_with_set_grad_enabled`,
//   `wrap_with_autocast(enabled=False)`, `invoke_subgraph`) are replaced by their bodies.
// - An integer or a constant that the program returns becomes a tensor without dims, through
//   `aten::scalar_tensor`; None is not returned. Where the program returns the new content of inputs and
//   buffers that it changes, an `aten::copy_` at its end writes it to them instead.
class GraphReader {
 public:
  GraphReader(StoredTensors& tensors, SymbolTable::LeastValues least_values)
      : tensors_(tensors), symbols_(std::move(least_values)) {}

  // `graph_module` and what it points into must live as long as the reader. Throws Error(invalid_file) where
  // it contradicts itself, Error(unsupported) for what has no form in ir.
  ir::Graph read(json::Object graph_module);

  // Among the arguments of an operator that is replaced by its body: the place of the body, and of the first
  // of the values that the body is called with, which are the last arguments.
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

  // One graph of the JSON while it is read: the main one, the body of an operator, or one that is inlined.
  struct Scope {
    ProgramBuilder& builder;
    json::Object graph;
    std::unordered_map<std::string_view, json::Element>
        types{};  // of tensors and numbers, as the JSON has them
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

  // -- names and their values
  const Binding& lookup(Scope& scope, std::string_view name) const;
  void bind_name(Scope& scope, json::Tagged argument, ir::AttributeValue value);
  ir::Value* tensor(Scope& scope, std::string_view name);
  std::string unique(std::string_view name);

  // -- arguments and types (graph_reader_arguments.cc)
  std::vector<ir::Attribute> read_arguments(Scope& scope, json::Array inputs);
  ir::AttributeValue read_argument(Scope& scope, json::Tagged argument);
  Dim read_integer(Scope& scope, json::Element element);
  ir::AttributeValue read_integers(Scope& scope, json::Array list);
  ir::AttributeValue read_number(Scope& scope, json::Element element);  // of floating-point or boolean type
  ir::AttributeValue read_numbers(Scope& scope, json::Array list);
  ir::Value* as_value(Scope& scope, ir::AttributeValue value, std::string_view name);
  json::Element type_of(const Scope& scope, std::string_view name) const;
  ir::TensorType tensor_type(const Scope& scope, std::string_view name);
  // Where PyTorch keeps the elements of what as_strided is called with: by that it reads.
  void add_layout(const Scope& scope, json::Array inputs, std::vector<ir::Attribute>& arguments);
  Dim read_sym_int(json::Element element);

  StoredTensors& tensors_;
  SymbolTable symbols_;
  std::unordered_map<std::string_view, std::string_view> placeholders_;  // of parameters and buffers
  NameCounts taken_;                                                     // names of values
};

}  // namespace opbridge
