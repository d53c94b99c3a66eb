// Nodes of opbridge's own operators, for computations that standard ONNX cannot express.
#pragma once

#include "lowering/common.h"

namespace opbridge::lowering {

// A node `op` ("opbridge::name") with one output of the given type, which is not inferred.
inline Value kernel(GraphBuilder& g, std::string_view op, std::vector<Operand> operands,
                    const ir::TensorType& type) {
  return g.typed(g.op_list(op, 1, std::move(operands)).front(), type);
}

// `value` as an operand, of the given type, of an operator with kernels for float32, float64, int32 and
// int64.
inline Value kernel_operand(GraphBuilder& g, Value value, ElementType type) {
  value = operand(g, value, type);
  if (!is_integral(type)) return value;
  const ElementType wide = integral_promotion(type);
  return g.cast(value, wide == ElementType::int32 ? wide : ElementType::int64);
}

// A node of a floating-point operator with kernels for float32 and float64. Its output has the shape of the
// call's result.
inline Value floating_kernel(GraphBuilder& g, std::string_view op, std::vector<Value> operands,
                             std::vector<Attr> attributes = {}) {
  const auto& [type, dims] = g.result();
  for (Value& value : operands) value = operand(g, value, type);
  std::vector<Operand> all{std::move(operands)};
  all.insert(all.end(), attributes.begin(), attributes.end());
  return g.cast(kernel(g, op, std::move(all), {opmath_type(type), dims}), type);
}

// The sign bit, that of NaN included, which standard ONNX cannot read. `value` has an opmath type.
inline Value sign_bit(GraphBuilder& g, Value value) {
  if (!is_floating_point(value.element_type())) return is_negative(g, value);
  Value bits = kernel(g, "opbridge::signbit", {value}, {ElementType::int32, value.type().dims});
  return g.cast(bits, ElementType::boolean);
}

}  // namespace opbridge::lowering
