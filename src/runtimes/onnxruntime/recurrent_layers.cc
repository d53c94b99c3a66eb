// Versions: all that were tried, 1.20 and 1.32.
// Model: LSTM or GRU of (n, 0, k): a batch without sequences. GRU of (n, m, 0), without features. LSTM or GRU
// of a hidden size of 0.
// Fault: the first two end the process, the third does not load.
// Rewrite: if there may be no sequence, one of zeros is appended, and removed from the results. Input and
// weights without features get one of zeros. What has a hidden size of 0 has no elements, and is filled.
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

std::vector<Value> recurrent_layer_without_state(GraphBuilder& g, const ir::Node& layer) {
  const Value x(layer.inputs[0]), w(layer.inputs[1]), r(layer.inputs[2]);
  if (!x.ranked() || !w.ranked() || !r.ranked() || !r.dim(-1).is(0)) return {};
  const bool batch_first = ir::attribute_or<int64_t>(layer, "layout", 0) != 0;
  const Dim zero = 0, both = w.dim(0), length = x.dim(batch_first ? 1 : 0),
            batch = x.dim(batch_first ? 0 : 1);
  const std::vector<Dim> all =
      batch_first ? std::vector{batch, length, both, zero} : std::vector{length, both, batch, zero};
  const std::vector<Dim> last = batch_first ? std::vector{batch, both, zero} : std::vector{both, batch, zero};
  std::vector<Value> made;
  for (size_t i = 0; i < layer.outputs.size(); ++i)
    made.push_back(lowering::filled(g, i == 0 ? all : last, 0, x.element_type()));
  return made;
}

std::vector<Value> recurrent_layer_of_any_size(GraphBuilder& g, const ir::Node& layer) {
  const Value x(layer.inputs[0]);
  if (!x.ranked() || ir::attribute_or<int64_t>(layer, "layout", 0) != 0) return {};
  const Dim batch = x.dim(1);
  const bool lacks_sequences = lowering::may_be_empty(batch);
  const bool lacks_features = layer.op == "GRU" && x.dim(2).is(0);
  if (!lacks_sequences && !lacks_features) return {};

  constexpr size_t weights = 1, lengths = 4, hidden = 5, memory = 6;
  std::vector<Operand> operands;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    Value input(layer.inputs[i]);
    if (lacks_features && (i == 0 || i == weights)) input = with_one_more(g, input, 2);
    const bool has_batch = input && (i == 0 || i == lengths || i == hidden || i == memory);
    if (lacks_sequences && has_batch) input = with_one_more(g, input, i == lengths ? 0 : 1);
    operands.emplace_back(input);
  }
  add_attributes(operands, layer);
  std::vector<Value> made = g.op_list(layer.op, layer.outputs.size(), std::move(operands));
  for (size_t i = 0; lacks_sequences && i < made.size(); ++i) {
    ir::TensorType type = layer.outputs[i]->tensor_type();
    const int64_t axis = i == 0 ? 2 : 1;  // Y is (length, directions, batch, hidden size)
    made[i] =
        g.slice(g.typed(made[i], {type.element_type, std::nullopt}), axis, g.ints({0}), g.sizes({batch}));
    g.typed(made[i], type);
  }
  return made;
}

}  // namespace opbridge::onnxruntime
