#include "runtimes/dequantized.h"

#include <algorithm>
#include <vector>

#include "ir/attribute_or.h"

namespace opbridge::runtimes {
namespace {

bool is_small_integer(ElementType type) {
  return type == ElementType::int4 || type == ElementType::uint4 || type == ElementType::int8 ||
         type == ElementType::uint8;
}

}  // namespace

std::optional<Dequantized> dequantized(ir::Node* node) {
  const auto is_constant = [](const ir::Value* input) { return !input || input->weight; };
  if (!node || node->op != "DequantizeLinear" || !std::ranges::all_of(node->inputs, is_constant))
    return std::nullopt;
  const ir::Weight &integers = *node->inputs[0]->weight, &scale = *node->inputs[1]->weight;
  const ir::Value* zero = node->inputs.size() > 2 ? node->inputs[2] : nullptr;
  if (!is_small_integer(integers.element_type) || scale.element_type != ElementType::float32)
    return std::nullopt;
  Dequantized made{node, integers, scale, zero ? zero->weight : nullptr, std::nullopt};
  if (scale.dims.empty()) return made;
  const int64_t axis = ir::attribute_or<int64_t>(*node, "axis", 1),
                block = ir::attribute_or<int64_t>(*node, "block_size", 0);
  made.axis = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(integers.dims.size()) : axis);
  if (block > 0) made.block = block;
  if (*made.axis >= integers.dims.size() || integers.dims[*made.axis] % made.block != 0) return std::nullopt;
  return made;
}

std::optional<Dequantized> transposed_factor(const ir::Node& node) {
  ir::Node* made = node.inputs.size() > 1 && node.inputs[1] ? node.inputs[1]->producer : nullptr;
  if (node.op == "MatMul") {
    const auto* perm = made && made->op == "Transpose" ? made->find("perm") : nullptr;
    if (!perm || std::get<std::vector<int64_t>>(*perm) != std::vector<int64_t>{1, 0}) return std::nullopt;
    made = made->inputs[0]->producer;
  } else {
    const auto is_one = [&](const char* name) {
      const auto* value = node.find(name);
      return !value || std::get<double>(*value) == 1;
    };
    if (node.op != "Gemm" || ir::attribute_or<int64_t>(node, "transA", 0) != 0 ||
        ir::attribute_or<int64_t>(node, "transB", 0) != 1 || !is_one("alpha") || !is_one("beta"))
      return std::nullopt;
  }
  return dequantized(made);
}

}  // namespace opbridge::runtimes
