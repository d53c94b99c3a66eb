// Versions: all that were tried, 1.20 to 1.32.
// Model: Clip of floating point with one bound, of the infinity at the other end.
// Fault: that infinity becomes the greatest finite number.
// Rewrite: Max or Min. Tests: test_lowering_comparison.py.
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value one_bound(GraphBuilder& g, const ir::Node& clip) {
  const Value x(clip.inputs[0]);
  const auto input = [&](size_t index) {
    return index < clip.inputs.size() ? Value(clip.inputs[index]) : Value();
  };
  const Value least = input(1), most = input(2);
  if (g.opset() < 11 || !is_floating_point(x.element_type()) || bool(least) == bool(most)) return {};
  return least ? g.op("Max", x, least) : g.op("Min", x, most);
}

}  // namespace opbridge::onnxruntime
