#include "runtimes/standard/transposed_weights.h"

#include <unordered_map>
#include <vector>

#include "ir/dead_code.h"
#include "ir/rewriter.h"
#include "runtimes/dequantized.h"
#include "tensor/constants.h"
#include "tensor/strided_copy.h"

namespace opbridge::standard {
namespace {

ir::Weight transposed(const ir::Weight& matrix) {
  const bool has_four_bits = bits_of(matrix.element_type) == 4;
  const ElementType type = !has_four_bits                             ? matrix.element_type
                           : matrix.element_type == ElementType::int4 ? ElementType::int8
                                                                      : ElementType::uint8;
  const ir::Weight from = *tensor::convert_weight(matrix, type);
  const int64_t rows = matrix.dims[0], columns = matrix.dims[1];
  std::vector<std::byte> bytes(from.bytes.size());
  tensor::strided_copy({size_of(type), {columns, rows}, {1, columns}}, from.bytes, bytes.data());
  return *tensor::convert_weight(tensor::owned_weight(type, {columns, rows}, std::move(bytes)),
                                 matrix.element_type);
}

bool needs_transpose(const runtimes::Dequantized& weight) {
  return weight.integers.dims.size() == 2 && (bits_of(weight.integers.element_type) == 4 || weight.block > 1);
}

// The transpose of the dequantized weight, made before `user`.
ir::Value* transposed(ir::Rewriter& rewriter, const runtimes::Dequantized& weight, const ir::Node& user) {
  std::vector<ir::Value*> inputs;
  for (const ir::Value* input : weight.node->inputs) {
    if (!input) continue;
    const bool is_matrix = input->weight->dims.size() == 2;
    inputs.push_back(rewriter.add_constant(input->name + ":transposed",
                                           is_matrix ? transposed(*input->weight) : *input->weight));
  }
  std::vector<ir::Attribute> attributes;
  if (weight.axis) attributes.push_back({"axis", static_cast<int64_t>(1 - *weight.axis)});
  if (const auto* block = weight.node->find("block_size")) attributes.push_back({"block_size", *block});
  ir::Node* node = rewriter.add(user, "DequantizeLinear", std::move(inputs), std::move(attributes));
  const ir::TensorType type{ElementType::float32,
                            std::vector<Dim>{weight.integers.dims[1], weight.integers.dims[0]}};
  return rewriter.add_result(node, weight.node->outputs[0]->name + ":transposed", type);
}

}  // namespace

void transpose_quantized_weights(ir::Graph& graph) {
  ir::Names names(graph);
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) {
    std::unordered_map<const ir::Node*, ir::Value*> known;  // the transpose of each weight
    ir::Rewriter rewriter(graph, *each, names);
    changed |= rewriter.run([&](ir::Node& node) {
      const std::optional<runtimes::Dequantized> weight = runtimes::transposed_factor(node);
      if (weight && needs_transpose(*weight)) {
        ir::Value*& made = known[weight->node];
        if (!made) made = transposed(rewriter, *weight, node);
        node.inputs[1] = made;
        if (node.op == "Gemm") node.set("transB", int64_t{0});
      }
      rewriter.append(node);
    });
  }
  if (changed) ir::remove_dead_code(graph);
}

}  // namespace opbridge::standard
