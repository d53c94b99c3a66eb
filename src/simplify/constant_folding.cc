#include <algorithm>

#include "ir/queries.h"
#include "ir/uses.h"
#include "simplify/passes.h"
#include "tensor/evaluate.h"

namespace opbridge::simplification {
namespace {

// Larger inputs are weights of the model; the runtime computes what depends on them.
constexpr size_t largest_folded_input = size_t{1} << 20;

// Whether the node converts or rearranges a weight of 8 or fewer bits. The result would be a second, often
// larger weight in the model; the runtime computes it when it loads the model.
bool uses_quantized_weight(const ir::Node& node) {
  constexpr int64_t least_elements = 1024;
  const auto is_quantized = [](const ir::Value* input) {
    const ir::Weight* weight = input ? input->weight : nullptr;
    return weight && weight->element_type != ElementType::boolean && bits_of(weight->element_type) <= 8 &&
           weight->element_type != ElementType::string && weight->element_count() >= least_elements;
  };
  return node.op != "Reshape" && std::ranges::any_of(node.inputs, is_quantized);
}

// Whether the node repeats the elements of a constant with several elements, such as the scales of blocks.
bool repeats_elements(const ir::Node& node) {
  constexpr int64_t least_elements = 64;
  const ir::Weight* weight = node.op == "Expand" ? node.inputs[0]->weight : nullptr;
  return weight && weight->element_count() >= least_elements;
}

// `Shape` of a value whose dims are known needs no constant input.
std::optional<ir::Weight> static_shape(const ir::Node& node) {
  const ir::TensorType& type = node.inputs.at(0)->tensor_type();
  if (!type.ranked()) return std::nullopt;
  const auto rank = static_cast<int64_t>(type.rank());
  auto bound = [&](std::string_view name, int64_t otherwise) {
    const ir::AttributeValue* value = node.find(name);
    const int64_t given = value ? std::get<int64_t>(*value) : otherwise;
    return std::clamp<int64_t>(given < 0 ? given + rank : given, 0, rank);
  };
  std::vector<int64_t> sizes;
  for (int64_t axis = bound("start", 0), end = bound("end", rank); axis < end; ++axis) {
    if (!(*type.dims)[axis].is_static()) return std::nullopt;
    sizes.push_back((*type.dims)[axis].value());
  }
  return ir::Weight::of<int64_t>(sizes, {static_cast<int64_t>(sizes.size())});
}

}  // namespace

bool fold_constants(ir::Graph& graph) {
  ir::Uses uses(graph);
  std::vector<const ir::Weight*> inputs;
  return uses.for_each_node([&](ir::Graph& holder, ir::Node& node) {
    if (node.outputs.size() != 1 || uses.is_output(node.outputs[0])) return;
    if (!ir::is_standard(node) || uses_quantized_weight(node) || repeats_elements(node)) return;

    std::optional<ir::Weight> result;
    if (node.op == "Shape") result = static_shape(node);
    inputs.clear();
    bool constant = !node.inputs.empty();
    for (const ir::Value* input : node.inputs) {
      constant &= !input || (input->weight && input->weight->bytes.size() <= largest_folded_input);
      inputs.push_back(input ? input->weight : nullptr);
    }
    if (!result && constant) result = tensor::evaluate(node, inputs);
    if (!result) return;
    uses.replace(node.outputs[0], holder.add_initializer(node.outputs[0]->name, std::move(*result)));
  });
}

}  // namespace opbridge::simplification
