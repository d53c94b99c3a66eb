// Versions: 1.20 to 1.32, on x86 processors without VNNI, as AMD's before Zen 4.
// Model: y = MatMul(DequantizeLinear(QuantizeLinear(x)), DequantizeLinear(w)) with a constant w of int8, also
// Gemm or Conv; x may become int8 too, which the runtime turns to uint8.
// Fault: the kernel adds pairs of products in 16 bits, where they saturate: results are too small, by up to
// a half. The session option "session.x64quantprecision" avoids it, which a model cannot set.
// Rewrite: w + 128 of uint8, whose kernels are exact; they take two to three times as long where there is
// VNNI. Weights up to 64 stay, and those of depthwise convolutions, whose kernel is exact.
// Tests: test_runtime_faults.py, test_int8_weights_of_integer_products.
#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "ir/attribute_or.h"
#include "ir/dead_code.h"
#include "ir/readers.h"
#include "ir/rewriter.h"
#include "runtimes/dequantized.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {
namespace {

constexpr int offset = 128;

bool may_saturate(std::span<const int8_t> levels) {
  constexpr int greatest = 64;  // 2 * 255 * 64 has 16 bits
  return std::ranges::any_of(levels, [](int level) { return std::abs(level) > greatest; });
}

bool is_depthwise(const ir::Node& node, const ir::Weight& kernel) {
  return node.op == "Conv" && kernel.dims.size() > 2 && kernel.dims[1] == 1 &&
         ir::attribute_or<int64_t>(node, "group", 1) == kernel.dims[0];
}

ir::Weight shifted(const ir::Weight& levels) {
  std::vector<uint8_t> made(levels.bytes.size());
  std::ranges::transform(levels.as<int8_t>(), made.begin(),
                         [](int level) { return static_cast<uint8_t>(level + offset); });
  return ir::Weight::of<uint8_t>(made, levels.dims);
}

ir::Weight shifted_zeros(const runtimes::Dequantized& weight) {
  if (weight.zero) return shifted(*weight.zero);
  const std::vector<uint8_t> made(static_cast<size_t>(weight.scale.element_count()), offset);
  return ir::Weight::of<uint8_t>(made, weight.scale.dims);
}

// The weights of uint8 that replace those of int8.
using Shifted = std::unordered_map<const ir::Value*, ir::Value*>;

void shift(ir::Rewriter& rewriter, const runtimes::Dequantized& weight, Shifted& known) {
  ir::Node& node = *weight.node;
  ir::Value* const levels = node.inputs[0];
  ir::Value*& made = known[levels];
  if (!made) made = rewriter.add_constant(levels->name + ":shifted", shifted(weight.integers));
  node.inputs = {made, node.inputs[1], rewriter.add_constant(levels->name + ":zeros", shifted_zeros(weight))};
}

}  // namespace

void shift_saturated_weights(ir::Graph& root, ir::Names& names) {
  Shifted known;
  for (ir::Graph* graph : ir::all_graphs(root)) {
    const ir::Readers readers(*graph);
    ir::Rewriter rewriter(root, *graph, names);
    rewriter.run([&](ir::Node& node) {
      rewriter.append(node);
      const std::optional<runtimes::Dequantized> weight = runtimes::dequantized(&node);
      if (!weight || weight->integers.element_type != ElementType::int8 ||
          !may_saturate(weight->integers.as<int8_t>()))
        return;
      const auto is_exact = [&](const ir::Node* reader) { return is_depthwise(*reader, weight->integers); };
      if (!std::ranges::all_of(readers.of(node.outputs[0]), is_exact)) shift(rewriter, *weight, known);
    });
  }
  if (!known.empty()) ir::remove_dead_code(root);
}

}  // namespace opbridge::onnxruntime
