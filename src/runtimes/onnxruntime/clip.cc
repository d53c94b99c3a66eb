// Versions: all that were tried, 1.20 to 1.32.
// Model: (a) Clip of floating point with one bound, which is the infinity of the other end; (b) Clip(Relu(x))
// of float64; (c) Clip of float64 at opset 11.
// Fault: in (a), that infinity becomes the greatest finite number; (b) does not load, because the runtime
// fuses the nodes only in float32; for (c) there is no kernel.
// Rewrite: Max, Min, or both.
// Tests: test_runtime_faults.py, test_lowering_comparison.py.
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value clip_by_max_and_min(GraphBuilder& g, const ir::Node& clip) {
  const Value x(clip.inputs[0]);
  const auto input = [&](size_t index) {
    return index < clip.inputs.size() ? Value(clip.inputs[index]) : Value();
  };
  const Value least = input(1), most = input(2);
  if (g.opset() < 11 || !is_floating_point(x.element_type()) || (!least && !most)) return {};
  const ir::Node* before = clip.inputs[0]->producer;
  const bool is_fused_wrongly = before && before->op == "Relu";
  const bool is_faulty = x.element_type() == ElementType::float64 && (is_fused_wrongly || g.opset() < 12);
  if (least && most && !is_faulty) return {};
  const Value raised = least ? g.op("Max", x, least) : x;
  return most ? g.op("Min", raised, most) : raised;
}

}  // namespace opbridge::onnxruntime
