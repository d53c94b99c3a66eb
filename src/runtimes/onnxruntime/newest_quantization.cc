// Versions: all.
// Model: QuantizeLinear or DequantizeLinear at opset 28, which has new versions of both.
// Fault: the runtime has no kernels of these versions; the model does not load.
// Rewrite: arithmetic in float32. As the kernels do, it maps NaN to the least level.
// Tests: test_runtime_faults.py, test_quantization_at_the_newest_opset.
#include <numeric>
#include <optional>
#include <vector>

#include "ir/attribute_or.h"
#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

constexpr int first_without_kernels = 28;

// The input of either operator, in float32; each block of an axis becomes an axis.
class Quantized {
 public:
  Quantized(GraphBuilder& g, const ir::Node& node)
      : g_(g), node_(node), x_(g.cast(Value(node.inputs[0]), ElementType::float32)) {
    if (Value(node.inputs[1]).rank() == 0) return;
    axis_ = wrap_axis(ir::attribute_or<int64_t>(node, "axis", 1), x_.rank());
    const auto block = ir::attribute_or<int64_t>(node, "block_size", 0);
    if (block == 0) return;
    in_blocks_ = true;
    std::vector<Dim> dims = x_.dims();
    const auto at = dims.begin() + axis_;
    *at = floor_div(*at, Dim(block));
    dims.insert(at + 1, Dim(block));
    x_ = g.reshape(x_, dims);
  }

  Value x() const { return x_; }

  // The scales or the zero points, which broadcast with x().
  std::optional<Value> parameter(size_t index) {
    if (index >= node_.inputs.size() || node_.inputs[index] == nullptr) return std::nullopt;
    Value parameter = g_.cast(Value(node_.inputs[index]), ElementType::float32);
    if (in_blocks_) return g_.unsqueeze(parameter, {axis_ + 1});
    if (parameter.rank() == 0 || axis_ + 1 == x_.rank()) return parameter;
    std::vector<int64_t> axes_after(static_cast<size_t>(x_.rank() - axis_ - 1));
    std::iota(axes_after.begin(), axes_after.end(), 1);
    return g_.unsqueeze(parameter, axes_after);
  }

  Value with_original_dims(Value result) {
    return in_blocks_ ? g_.reshape(result, *node_.outputs[0]->tensor_type().dims) : result;
  }

 private:
  GraphBuilder& g_;
  const ir::Node& node_;
  Value x_;
  int64_t axis_ = 0;
  bool in_blocks_ = false;
};

}  // namespace

Value quantized_by_arithmetic(GraphBuilder& g, const ir::Node& node) {
  if (g.opset() < first_without_kernels) return {};
  Quantized quantized(g, node);
  const ElementType type = node.outputs[0]->tensor_type().element_type;
  Value level = g.op("Round", g.op("Div", quantized.x(), *quantized.parameter(1)));
  if (const std::optional<Value> zero = quantized.parameter(2)) level = g.op("Add", level, *zero);
  Value least = g.scalar_like(level, lowering::lowest_value(type));
  level = g.op("Where", g.op("IsNaN", level), least, level);
  level = g.op("Clip", level, least, g.scalar_like(level, lowering::highest_value(type)));
  return quantized.with_original_dims(g.cast(level, type));
}

Value dequantized_by_arithmetic(GraphBuilder& g, const ir::Node& node) {
  if (g.opset() < first_without_kernels) return {};
  Quantized quantized(g, node);
  Value level = quantized.x();
  if (const std::optional<Value> zero = quantized.parameter(2)) level = g.op("Sub", level, *zero);
  return quantized.with_original_dims(g.op("Mul", level, *quantized.parameter(1)));
}

}  // namespace opbridge::onnxruntime
