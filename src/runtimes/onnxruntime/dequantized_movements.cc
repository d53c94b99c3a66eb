// Versions: 1.31 and 1.32; 1.20 does not have the fault.
// Model: DequantizeLinear of int8 by one scale, then Transpose, Reshape, Squeeze, Unsqueeze, Slice or
// MaxPool; from opset 21 on, where QuantizeLinear has output_dtype.
// Fault: the model does not load. The runtime quantizes the result once more, and then exchanges int8 for
// uint8 in the zero point, but not in output_dtype.
// Rewrite: the levels are moved, and dequantized afterwards.
// Tests: test_runtime_faults.py, and test_dequantized_tensors_may_be_moved.
#include "ir/attribute_or.h"
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

bool is_positive_number(const Value& scale) {
  const std::optional<double> number = scale.weight() ? tensor::number_of(*scale.weight()) : std::nullopt;
  return number && *number > 0;
}

}  // namespace

Value dequantized_after_movement(GraphBuilder& g, const ir::Node& movement) {
  const ir::Node* dequantize = movement.inputs[0]->producer;
  if (g.opset() < 21 || !dequantize || dequantize->op != "DequantizeLinear" || movement.outputs.size() != 1)
    return {};
  const Value levels(dequantize->inputs[0]), scale(dequantize->inputs[1]);
  if (levels.element_type() != ElementType::int8 || levels.weight() || scale.rank() != 0) return {};
  if (movement.op == "MaxPool" && !is_positive_number(scale)) return {};
  std::vector<Operand> operands{levels};
  for (size_t i = 1; i < movement.inputs.size(); ++i) operands.emplace_back(Value(movement.inputs[i]));
  add_attributes(operands, movement);
  Value moved =
      g.typed(g.op_list(movement.op, 1, std::move(operands))[0], *movement.outputs[0]->tensor_type().dims);
  if (dequantize->inputs.size() < 3) return g.op("DequantizeLinear", moved, scale);
  return g.op("DequantizeLinear", moved, scale, Value(dequantize->inputs[2]));
}

}  // namespace opbridge::onnxruntime
