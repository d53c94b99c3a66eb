// Versions: all that were tried, 1.20 and 1.32.
// Model: Scan over an axis other than the first, of a tensor without elements.
// Fault: the process is killed by a division by 0.
// Rewrite: the axis is moved to the front, and back in the results.
// Tests: test_runtime_faults.py, test_lowering_cumulative.py.
#include <algorithm>

#include "ir/attribute_or.h"
#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

std::vector<Value> scan_along_first_axis(GraphBuilder& g, const ir::Node& scan) {
  using Ints = std::vector<int64_t>;
  const auto scanned = static_cast<size_t>(ir::attribute_or<int64_t>(scan, "num_scan_inputs", 0));
  const size_t states = scan.inputs.size() - scanned, stacked = scan.outputs.size() - states;
  Ints input_axes = ir::attribute_or(scan, "scan_input_axes", Ints(scanned, 0)),
       output_axes = ir::attribute_or(scan, "scan_output_axes", Ints(stacked, 0));
  const auto is_moved = [&](Value value, int64_t axis) {
    const auto may_be_0 = [](const Dim& dim) { return !dim.is_static() || dim.is(0); };
    return axis != 0 && value.ranked() && std::ranges::any_of(value.dims(), may_be_0);
  };

  bool changes = false;
  std::vector<Operand> operands;
  for (size_t i = 0; i < scan.inputs.size(); ++i) {
    Value input(scan.inputs[i]);
    if (i >= states && is_moved(input, input_axes[i - states])) {
      input = lowering::move_axis(g, input, std::exchange(input_axes[i - states], 0), 0);
      changes = true;
    }
    operands.emplace_back(input);
  }
  if (!changes) return {};
  Ints back(stacked, 0);
  for (size_t i = 0; i < stacked; ++i) {
    if (is_moved(scan.outputs[states + i], output_axes[i])) back[i] = std::exchange(output_axes[i], 0);
  }
  add_attributes(operands, scan, {"scan_input_axes", "scan_output_axes"});
  operands.push_back(attr("scan_input_axes", input_axes));
  operands.push_back(attr("scan_output_axes", output_axes));
  std::vector<Value> made = g.op_list("Scan", scan.outputs.size(), std::move(operands));
  for (size_t i = 0; i < made.size(); ++i) {
    const ir::TensorType type = scan.outputs[i]->tensor_type();
    if (i < states || back[i - states] == 0) {
      g.typed(made[i], type);
      continue;
    }
    std::vector<Dim> dims = type.dims.value();
    const int64_t axis = wrap_axis(back[i - states], static_cast<int64_t>(dims.size()));
    std::rotate(dims.begin(), dims.begin() + axis, dims.begin() + axis + 1);
    made[i] = lowering::move_axis(g, g.typed(made[i], {type.element_type, std::move(dims)}), 0, axis);
  }
  return made;
}

}  // namespace opbridge::onnxruntime
