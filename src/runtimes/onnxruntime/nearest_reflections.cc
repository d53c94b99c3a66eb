// Versions: all that were tried, 1.20 and 1.32.
// Model: GridSample with mode "nearest", padding_mode "reflection" and align_corners=0, of coordinates
// outside the image that are midway between two pixels.
// Fault: the runtime rounds the coordinates before it reflects them; ONNX reflects them first.
// Rewrite: the grid is reflected into [-1, 1] by other nodes.
// Tests: test_runtime_faults.py, test_lowering_sampling.py.
#include "ir/attribute_or.h"
#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

// 1 - |(x + 1) mod 4 - 2| for coordinates outside [-1, 1].
Value reflected(GraphBuilder& g, Value grid) {
  const auto number = [&](double value) { return g.scalar_like(grid, value); };
  Value moved = g.op("Add", grid, number(1));
  Value periods = g.op("Floor", g.op("Div", moved, number(4)));
  Value phase = g.op("Sub", moved, g.op("Mul", periods, number(4)));
  Value inside = g.op("Sub", number(1), g.op("Abs", g.op("Sub", phase, number(2))));
  return g.op("Where", g.op("Greater", g.op("Abs", grid), number(1)), inside, grid);
}

}  // namespace

Value nearest_after_reflection(GraphBuilder& g, const ir::Node& sampling) {
  if (ir::attribute_or<std::string>(sampling, "mode", "") != "nearest" ||
      ir::attribute_or<std::string>(sampling, "padding_mode", "") != "reflection" ||
      ir::attribute_or<int64_t>(sampling, "align_corners", 0) != 0)
    return {};
  const Value grid(sampling.inputs[1]);
  const ElementType type = grid.element_type();
  const Value inside = g.cast(reflected(g, lowering::operand(g, grid, type)), type);
  return g.op("GridSample", Value(sampling.inputs[0]), inside, attr("mode", "nearest"),
              attr("padding_mode", "reflection"), attr("align_corners", 0));
}

}  // namespace opbridge::onnxruntime
