// Versions: 1.31 and 1.32; 1.20 has opset 21 at most.
// Model: y = Attention(q, k, v) of bfloat16, from opset 23 on.
// Fault: there is no kernel, neither for the operator nor for the nodes of the function by which ONNX defines
// it. The model does not load.
// Rewrite: products of matrices, whose element types element_types.cc fits to the kernels.
// Tests: test_runtime_faults.py, test_lowering_attention.py.
#include "lowering/nn/attention.h"

#include <algorithm>

#include "ir/attribute_or.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

// Whether the node has the form that lowerings give it: tensors of four dims, and no cache of keys.
bool is_plain(const ir::Node& attention) {
  const auto has_heads = [](Value input) { return input.ranked() && input.rank() == 4; };
  return attention.inputs.size() <= 4 && attention.outputs.size() == 1 &&
         std::ranges::all_of(std::span(attention.inputs).first(3), has_heads) &&
         std::ranges::all_of(attention.attributes, [](const ir::Attribute& attribute) {
           return attribute.name == "is_causal" || attribute.name == "scale";
         });
}

}  // namespace

Value attention_of_bfloat16(GraphBuilder& g, const ir::Node& attention) {
  const Value query(attention.inputs[0]), key(attention.inputs[1]), value(attention.inputs[2]);
  if (query.element_type() != ElementType::bfloat16 || !is_plain(attention)) return {};
  std::optional<Value> mask;
  if (attention.inputs.size() > 3) mask = Value(attention.inputs[3]);
  std::optional<double> scale;
  if (attention.find("scale") != nullptr) scale = ir::attribute_or<double>(attention, "scale", 0);
  return lowering::attention_by_products(g, query, lowering::repeat_heads(g, key, query.dim(1)),
                                         lowering::repeat_heads(g, value, query.dim(1)), mask,
                                         ir::attribute_or<int64_t>(attention, "is_causal", 0) != 0, scale);
}

}  // namespace opbridge::onnxruntime
