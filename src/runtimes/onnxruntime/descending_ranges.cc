// Versions: all that were tried, 1.20 and 1.32.
// Model: Gather by a Range that begins or ends below 0.
// Fault: the runtime fuses both into a Slice, for which negative bounds count from the end of the axis.
// Rewrite: the start and the step, or its sign, are applied to a range from 0.
// Tests: test_runtime_faults.py, test_places_that_go_down_or_begin_below_zero.
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {

Value range_from_zero(GraphBuilder& g, const ir::Node& range) {
  const Value start(range.inputs[0]), limit(range.inputs[1]), step(range.inputs[2]), result(range.outputs[0]);
  const auto number = [](Value value) {
    return value.weight() ? tensor::number_of(*value.weight()) : std::nullopt;
  };
  const std::optional<double> first = number(start), by = number(step);
  const ElementType type = result.element_type();
  const bool stays_above = first && *first >= 0 && by && *by > 0;
  if (stays_above || !is_integral(type) || !result.ranked()) return {};
  const auto from_start = [&](Value indices, Value factor) {
    if (by != 1) indices = g.op("Mul", indices, factor);
    return first == 0 ? indices : g.op("Add", indices, start);
  };
  const Value zero = g.scalar(0, type);
  if (result.dim(0).is_static()) {  // the distance of the ends may lie beyond the type
    const Value count = g.size(result.dim(0)), one = g.scalar(1, ElementType::int64);
    return from_start(g.cast(g.op("Range", g.cast(zero, ElementType::int64), count, one), type), step);
  }
  const auto steps = [&](Value end, Value by_how_many) {
    return g.typed(g.op("Range", zero, end, by_how_many), result.dims());
  };
  const Value distance = first == 0 ? limit : g.op("Sub", limit, start);
  if (by == 1) return from_start(steps(distance, step), step);
  const Value sign = by ? g.scalar(*by < 0 ? -1 : 1, type) : g.op("Sign", step);
  return from_start(steps(g.op("Mul", distance, sign), g.op("Abs", step)), sign);
}

}  // namespace opbridge::onnxruntime
