// Nodes of opbridge's own operators, where ONNX cannot say what PyTorch computes.
#pragma once

#include "lowering/common.h"

namespace opbridge::lowering {

// The operator `op` ("opbridge::name") with one output, of a type that only the caller knows.
inline Value kernel(GraphBuilder& g, std::string_view op, std::vector<Operand> operands,
                    const ir::TensorType& type) {
  Value made = g.op_list(op, 1, std::move(operands)).front();
  made.get()->type = type;
  return made;
}

// The same for an operator of floating-point numbers that has kernels for float32 and float64, and gives the
// shape of the call's result.
inline Value floating_kernel(GraphBuilder& g, std::string_view op, std::vector<Value> operands,
                             std::vector<Attr> attributes = {}) {
  const auto& [type, dims] = g.result();
  for (Value& value : operands) value = operand(g, value, type);
  std::vector<Operand> all{std::move(operands)};
  all.insert(all.end(), attributes.begin(), attributes.end());
  return g.cast(kernel(g, op, std::move(all), {kernel_type(type), dims}), type);
}

}  // namespace opbridge::lowering
