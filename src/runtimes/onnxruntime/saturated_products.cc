// Versions: 1.20 to 1.32, on x86 processors without VNNI, as AMD's before Zen 4.
// Model: y = MatMul(DequantizeLinear(QuantizeLinear(x)), DequantizeLinear(w)) with w of int8, also Gemm or
// Conv; x may become int8 too, which the runtime turns to uint8.
// Fault: the kernel adds pairs of products in 16 bits, where they saturate: results are too small, by up to a
// half. The session option "session.x64quantprecision" avoids it, which a model cannot set.
// Rewrite: w + 128 of uint8, whose kernels are exact; they take two to three times as long where there is
// VNNI. Weights up to 64 stay, and those of depthwise convolutions, whose kernel is exact. If w is neither
// constant nor the result of a QuantizeLinear, a Max with -inf keeps the runtime from multiplying integers.
// Tests: test_runtime_faults.py, test_int8_weights_of_integer_products.
#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/attribute_or.h"
#include "ir/dead_code.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/moved_levels.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

constexpr int offset = 128;

bool may_saturate(const ir::Weight& levels) {
  constexpr int greatest = 64;  // 2 * 255 * 64 fits into int16
  return std::ranges::any_of(levels.as<int8_t>(), [](int level) { return std::abs(level) > greatest; });
}

bool is_depthwise(const ir::Node& product, const ir::Weight& kernel) {
  return product.op == "Conv" && kernel.dims.size() > 2 && kernel.dims[1] == 1 &&
         ir::attribute_or<int64_t>(product, "group", 1) == kernel.dims[0];
}

// The DequantizeLinear that makes the second factor of a product of integers, if the product may saturate.
const ir::Node* signed_factor(const ir::Node& node) {
  if (node.op != "MatMul" && node.op != "Gemm" && node.op != "Conv") return nullptr;
  if (!dequantization_of(node.inputs[0])) return nullptr;
  const ir::Node* made = before_transposes(node.inputs[1]);
  if (!made || made->op != "DequantizeLinear") made = dequantization_of(node.inputs[1]);
  if (!made || ir::element_type(made->inputs[0]) != ElementType::int8) return nullptr;
  const ir::Weight* levels = made->inputs[0]->weight;
  return levels && (is_depthwise(node, *levels) || !may_saturate(*levels)) ? nullptr : made;
}

ir::Weight shifted(const ir::Weight& levels) {
  std::vector<uint8_t> made(levels.bytes.size());
  std::ranges::transform(levels.as<int8_t>(), made.begin(),
                         [](int level) { return static_cast<uint8_t>(level + offset); });
  return ir::Weight::of<uint8_t>(made, levels.dims);
}

// Converts int8 integers to uint8.
class Shift {
 public:
  explicit Shift(ir::Graph& root) : uses_(root) {}

  // Appends what takes the place of a DequantizeLinear of int8.
  void run(ir::Rewriter& rewriter, ir::Node& node) {
    rewriter.append(node);
    if (!shift_constant(rewriter, node) && !shift_quantized(rewriter, node)) set_apart(rewriter, node);
  }

 private:
  bool shift_constant(ir::Rewriter& rewriter, ir::Node& node) {
    const auto is_constant = [](const ir::Value* input) { return !input || input->weight; };
    if (!std::ranges::all_of(node.inputs, is_constant)) return false;
    node.inputs.resize(3);
    ir::Value*& zeros = node.inputs[2];
    if (zeros) {
      zeros = constant(rewriter, zeros);
    } else {
      const ir::Weight& scale = *node.inputs[1]->weight;
      const std::vector<uint8_t> made(static_cast<size_t>(scale.element_count()), offset);
      zeros =
          rewriter.add_constant(node.inputs[0]->name + ":zeros", ir::Weight::of<uint8_t>(made, scale.dims));
    }
    node.inputs[0] = constant(rewriter, node.inputs[0]);
    return true;
  }

  bool shift_quantized(ir::Rewriter& rewriter, ir::Node& node) {
    ir::Value* const levels = node.inputs[0];
    ir::Node* quantize = levels->producer;
    if (!quantize || quantize->op != "QuantizeLinear" || quantize->find("output_dtype") ||
        !uses_.once(levels) || node.inputs.size() < 3 || quantize->inputs.size() < 3 ||
        quantize->inputs[2] != node.inputs[2] || !node.inputs[2]->weight)
      return false;
    node.inputs[2] = quantize->inputs[2] = constant(rewriter, node.inputs[2]);
    levels->type = ir::TensorType{ElementType::uint8, levels->tensor_type().dims};
    return true;
  }

  ir::Value* constant(ir::Rewriter& rewriter, const ir::Value* before) {
    ir::Value*& made = known_[before];
    if (!made) made = rewriter.add_constant(before->name + ":shifted", shifted(*before->weight));
    return made;
  }

  ir::Uses uses_;
  std::unordered_map<const ir::Value*, ir::Value*> known_;
};

}  // namespace

void shift_signed_factors(ir::Graph& root, ir::Names& names) {
  std::unordered_set<const ir::Node*> found;
  for (const ir::Graph* graph : ir::all_graphs(root)) {
    for (const ir::Node* node : graph->nodes) found.insert(signed_factor(*node));
  }
  if (found.size() == found.count(nullptr)) return;
  Shift shift(root);
  ir::rewrite_nodes(root, names, [&](ir::Rewriter& rewriter, ir::Node& node) {
    if (found.contains(&node)) {
      shift.run(rewriter, node);
    } else {
      rewriter.append(node);
    }
  });
  ir::remove_dead_code(root);
}

}  // namespace opbridge::onnxruntime
