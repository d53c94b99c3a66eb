// Versions: all that were tried, 1.20 and 1.32.
// Model: LSTM or GRU of (n, 0, k): a batch without sequences.
// Fault: the process crashes.
// Rewrite: if there may be no sequence, one of zeros is appended, and removed from the results.
// Tests: test_runtime_faults.py, test_lowering_recurrent.py.
#include "ir/attribute_or.h"
#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

Value with_one_more(GraphBuilder& g, Value value, int64_t axis) {
  std::vector<Dim> dims = value.dims();
  dims.at(static_cast<size_t>(axis)) = 1;
  return g.concat({value, lowering::filled(g, dims, 0, value.element_type())}, axis);
}

}  // namespace

std::vector<Value> recurrent_layer_of_any_batch(GraphBuilder& g, const ir::Node& layer) {
  const Value x(layer.inputs[0]);
  if (!x.ranked() || ir::attribute_or<int64_t>(layer, "layout", 0) != 0) return {};
  const Dim batch = x.dim(1);
  if (!lowering::may_be_empty(std::vector{batch})) return {};

  constexpr size_t lengths = 4, hidden = 5, memory = 6;  // the inputs with a batch besides X
  std::vector<Operand> operands;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const Value input(layer.inputs[i]);
    const bool has_batch = input && (i == 0 || i == lengths || i == hidden || i == memory);
    operands.emplace_back(has_batch ? with_one_more(g, input, i == lengths ? 0 : 1) : input);
  }
  add_attributes(operands, layer);
  std::vector<Value> made = g.op_list(layer.op, layer.outputs.size(), std::move(operands));
  for (size_t i = 0; i < made.size(); ++i) {
    ir::TensorType type = layer.outputs[i]->tensor_type();
    const int64_t axis = i == 0 ? 2 : 1;  // Y is (length, directions, batch, hidden size)
    made[i] =
        g.slice(g.typed(made[i], {type.element_type, std::nullopt}), axis, g.ints({0}), g.sizes({batch}));
    g.typed(made[i], type);
  }
  return made;
}

}  // namespace opbridge::onnxruntime
