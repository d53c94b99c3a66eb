// Versions: 1.20 to 1.32.
// Model: y = MatMul(x, Transpose(DequantizeLinear(w, scale))), with w a constant of 4 bits, or Gemm.
// Fault: the runtime computes the weight at each run. Where it does not, since w is stored transposed and in
// blocks, it rounds x to 8 bits, unless the session has "session.qdq_matmulnbits_accuracy_level": the result
// differs by about half a percent.
// Rewrite: a MatMulNBits that computes in float32.
// Tests: test_runtime_faults.py, test_quantized_models.py.
#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include "ir/dead_code.h"
#include "ir/rewriter.h"
#include "runtimes/dequantized.h"
#include "runtimes/onnxruntime/faults.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

// The columns that share a scale in MatMulNBits. Missing if its kernels have no such block.
std::optional<int64_t> block_size(const runtimes::Dequantized& weight) {
  constexpr int64_t least = 16, greatest = 256;
  const int64_t columns = weight.integers.dims[1];
  const int64_t shared = weight.axis == size_t{1} ? weight.block : columns;
  if (shared == 0 || (weight.axis == size_t{0} && weight.block != 1)) return std::nullopt;
  const int64_t power = int64_t{1} << std::countr_zero(static_cast<uint64_t>(shared));
  return power < least ? std::nullopt : std::optional(std::min(power, greatest));
}

// `values` has one value for each scale of the weight; the result has one for each row and block of columns.
template <class T>
std::vector<T> for_each_block(std::span<const T> values, const runtimes::Dequantized& weight, int64_t block) {
  const int64_t rows = weight.integers.dims[0], columns = weight.integers.dims[1];
  std::vector<T> spread;
  spread.reserve(static_cast<size_t>(rows * (columns / block)));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; column += block) {
      const int64_t index = !weight.axis        ? 0
                            : *weight.axis == 0 ? row
                                                : (row * columns + column) / weight.block;
      spread.push_back(values[static_cast<size_t>(index)]);
    }
  }
  return spread;
}

// Pairs of 4-bit numbers, an even number in each row.
ir::Weight packed_zeros(const runtimes::Dequantized& weight, int64_t block, int64_t offset) {
  const int64_t rows = weight.integers.dims[0], blocks = weight.integers.dims[1] / block,
                pairs = (blocks + 1) / 2;
  std::vector<int64_t> zeros(static_cast<size_t>(weight.scale.element_count()), 0);
  if (weight.zero) {
    const ir::Weight wide = *tensor::convert_weight(*weight.zero, ElementType::int64);
    std::ranges::copy(wide.as<int64_t>(), zeros.begin());
  }
  const std::vector<int64_t> spread = for_each_block<int64_t>(zeros, weight, block);
  std::vector<uint8_t> packed(static_cast<size_t>(rows * pairs));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < blocks; ++i) {
      const auto level = static_cast<uint8_t>(spread[static_cast<size_t>(row * blocks + i)] + offset);
      packed[static_cast<size_t>(row * pairs + i / 2)] |= static_cast<uint8_t>(level << (i % 2 == 0 ? 0 : 4));
    }
  }
  return ir::Weight::of<uint8_t>(packed, {rows * pairs});
}

// The constants of MatMulNBits for a weight. Its levels are unsigned.
std::vector<ir::Value*> factors(ir::Rewriter& rewriter, const runtimes::Dequantized& weight, int64_t block) {
  std::vector<ir::Value*> made;
  const bool is_signed = weight.integers.element_type == ElementType::int4;
  const auto add = [&](const char* suffix, ir::Weight constant) {
    made.push_back(rewriter.add_constant(weight.node->inputs[0]->name + suffix, std::move(constant)));
  };
  std::vector<std::byte> levels(weight.integers.bytes.begin(), weight.integers.bytes.end());
  if (is_signed) {
    for (std::byte& pair : levels) pair ^= std::byte{0x88};  // adds 8 to both
  }
  const int64_t rows = weight.integers.dims[0], blocks = weight.integers.dims[1] / block;
  add(":levels", tensor::owned_weight(ElementType::uint8, {rows, blocks, block / 2}, std::move(levels)));
  const std::vector<float> scales = for_each_block(weight.scale.as<float>(), weight, block);
  add(":scales", ir::Weight::of<float>(scales, {rows * blocks}));
  // Without zero points, they are 8.
  if (weight.zero || !is_signed) add(":zeros", packed_zeros(weight, block, is_signed ? 8 : 0));
  return made;
}

// The constants of each weight, which its products share.
using Factors = std::unordered_map<const ir::Node*, std::vector<ir::Value*>>;

// Appends a MatMulNBits that makes the result of `node`. Returns whether it did.
bool replace(ir::Rewriter& rewriter, const ir::Node& node, Factors& known) {
  const std::optional<runtimes::Dequantized> weight = runtimes::transposed_factor(node);
  if (!weight || bits_of(weight->integers.element_type) != 4 || weight->integers.dims.size() != 2)
    return false;
  const auto* type = std::get_if<ir::TensorType>(&node.inputs[0]->type);
  const std::optional<int64_t> block = block_size(*weight);
  if (!block || !type || !type->ranked() || type->rank() < 2) return false;
  std::vector<ir::Value*>& constants = known[weight->node];
  if (constants.empty()) constants = factors(rewriter, *weight, *block);
  std::vector<ir::Value*> inputs = constants;
  inputs.insert(inputs.begin(), node.inputs[0]);
  ir::Node* last = rewriter.add(node, "com.microsoft::MatMulNBits", std::move(inputs),
                                {{"K", weight->integers.dims[1]},
                                 {"N", weight->integers.dims[0]},
                                 {"bits", int64_t{4}},
                                 {"block_size", *block},
                                 {"accuracy_level", int64_t{1}}});  // float32
  ir::Value* result = node.outputs[0];
  if (node.inputs.size() > 2 && node.inputs[2]) {
    ir::Value* product = rewriter.add_result(last, result->name + ":product", result->type);
    last = rewriter.add(node, "Add", {product, node.inputs[2]});
  }
  ir::set_only_result(last, result);
  return true;
}

}  // namespace

void multiply_four_bits(ir::Graph& graph, ir::Names& names) {
  Factors known;
  const bool changed = ir::rewrite_nodes(graph, names, [&](ir::Rewriter& rewriter, ir::Node& node) {
    if (!replace(rewriter, node, known)) rewriter.append(node);
  });
  if (changed) ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
