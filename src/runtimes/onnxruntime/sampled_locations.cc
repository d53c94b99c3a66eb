// Versions: all that were tried, 1.20 and 1.32.
// Model: GridSample (a) with mode "nearest", padding_mode "reflection" and align_corners=0, at locations
// outside the image that are midway between two pixels; (b) at locations that are NaN, infinite or so far
// away that their distance in pixels is no integer of 32 bits.
// Fault: in (a), the runtime rounds locations before it reflects them, while ONNX reflects them first; in
// (b), it converts them to integers, and returns any pixel, or what lies in memory beyond the image; 1.20
// still samples NaN and zeros beyond the image correctly. Rewrite: locations are moved near the image, to
// where the result is the same. The samples at NaN and infinite locations, which ONNX leaves open, become
// those of PyTorch on the CPU. Tests: test_runtime_faults.py, test_lowering_sampling.py.
#include "ir/attribute_or.h"
#include "lowering/formula.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

using lowering::Formula;

// 1 - |(x + 1) mod 4 - 2| for locations outside [-1, 1]. NaN for infinite ones.
Formula reflected(const Formula& grid) {
  const Formula moved = grid + 1;
  const Formula phase = moved - node("Floor", moved / 4) * 4;
  return where(abs(grid) > 1, 1 - abs(phase - 2), grid);
}

// At this distance from the center, no pixel of any image has a weight, not even in cubic samples.
constexpr double outside = 8;

}  // namespace

Value sample_near_image(GraphBuilder& g, const ir::Node& sampling) {
  const Value x(sampling.inputs[0]), locations(sampling.inputs[1]);
  const ElementType type = locations.element_type();
  const auto mode = ir::attribute_or<std::string>(sampling, "mode", "linear");
  const auto padding = ir::attribute_or<std::string>(sampling, "padding_mode", "zeros");
  const bool is_cubic = mode == "cubic" || mode == "bicubic", is_nearest = mode == "nearest";
  const bool is_volume = x.rank() == 5, has_zeros = padding == "zeros";

  const Formula grid(g, lowering::operand(g, locations, type));
  const auto clipped = [&] {
    return Formula(g, g.op("Clip", Value(grid), g.scalar_like(grid, -outside), g.scalar_like(grid, outside)));
  };
  const bool is_reflected = padding == "reflection";
  const Formula moved = is_reflected ? reflected(grid) : clipped();
  // NaN becomes the first pixel of an image and the last one of a volume, as in PyTorch.
  const Formula near = where(node("IsNaN", is_reflected ? moved : grid), is_volume ? 1 : -1, moved);
  std::vector<Operand> operands{x, g.cast(near, type)};
  add_attributes(operands, sampling);
  const Value samples = g.op_list("GridSample", 1, operands).front();
  if (!is_cubic && !has_zeros) return samples;

  // 0 at finite locations and NaN at others, for each sample.
  const Value nan = g.cast(g.unsqueeze(g.reduce("ReduceSum", grid * 0, {-1}, false), {1}), x.element_type());
  if (is_cubic || !(is_nearest || is_volume)) return g.op("Add", samples, nan);
  return g.op("Where", g.op("IsNaN", nan), g.scalar_like(samples, 0), samples);
}

}  // namespace opbridge::onnxruntime
