// Versions: all that were tried, 1.20 and 1.32.
// Model: Gather by a Range that begins or ends below 0.
// Fault: the runtime fuses both into a Slice, for which negative bounds count from the end of the axis.
// Rewrite: the step and the start are applied to a range from 0.
// Tests: test_runtime_faults.py, test_places_that_go_down_or_begin_below_zero.
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {

Value range_from_zero(GraphBuilder& g, const ir::Node& range) {
  const Value start(range.inputs[0]), step(range.inputs[2]), result(range.outputs[0]);
  const auto number = [](Value value) {
    return value.weight() ? tensor::number_of(*value.weight()) : std::nullopt;
  };
  const std::optional<double> first = number(start), by = number(step);
  const ElementType type = result.element_type();
  const bool stays_above = first && *first >= 0 && by && *by > 0;
  if (stays_above || !is_integral(type) || !result.ranked()) return {};
  Value indices =
      g.op("Range", g.scalar(0, ElementType::int64), g.size(result.dim(0)), g.scalar(1, ElementType::int64));
  indices = g.cast(indices, type);
  if (by != 1) indices = g.op("Mul", indices, step);
  return first == 0 ? indices : g.op("Add", indices, start);
}

}  // namespace opbridge::onnxruntime
