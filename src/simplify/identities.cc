// Removes nodes that return one of their inputs unchanged.
#include <algorithm>

#include "ir/queries.h"
#include "ir/uses.h"
#include "simplify/passes.h"
#include "tensor/constants.h"

namespace opbridge::simplification {
namespace {

// Whether `wide` can represent every value of `narrow`, so that a conversion to it and back changes nothing.
bool has_every_value_of(ElementType wide, ElementType narrow) {
  const auto exact_bits = [](ElementType type) {  // integers with this many bits and a sign are exact
    switch (type) {
      case ElementType::float64:
        return 53u;
      case ElementType::float32:
        return 24u;
      case ElementType::float16:
        return 11u;
      case ElementType::bfloat16:
        return 8u;
      default:
        return 0u;
    }
  };
  if (narrow == ElementType::boolean) return is_integral(wide) || exact_bits(wide) > 0;
  if (is_integral(narrow)) {
    const auto is_signed = [](ElementType type) { return !tensor::is_unsigned(type); };
    const unsigned bits = bits_of(narrow) - (is_signed(narrow) ? 1 : 0);
    if (!is_integral(wide)) return bits <= exact_bits(wide);
    return bits <= bits_of(wide) - (is_signed(wide) ? 1 : 0) && (is_signed(wide) || !is_signed(narrow));
  }
  if (narrow == ElementType::float16 || narrow == ElementType::bfloat16) {
    return wide == ElementType::float32 || wide == ElementType::float64;
  }
  return narrow == ElementType::float32 && wide == ElementType::float64;
}

// If `node` inverts its producer: the producer's input.
ir::Value* undone_source_of(const ir::Node& node) {
  const ir::Node* before = node.inputs[0]->producer;
  if (before == nullptr || before->op != node.op || before->inputs.size() != 1) return nullptr;
  ir::Value* source = before->inputs[0];
  if (node.op == "Neg" || node.op == "Not" || node.op == "BitwiseNot") return source;
  const bool is_back =
      node.op == "Cast" && has_every_value_of(ir::element_type(node.inputs[0]), ir::element_type(source));
  return is_back ? source : nullptr;
}

// The input that `node` returns unchanged for all elements; null if there is none. The exception is x + 0,
// which turns -0 into 0.
ir::Value* source_of(const ir::Node& node) {
  const auto& inputs = node.inputs;
  if (node.op == "Identity") return inputs[0];
  if (node.op == "Cast" && inputs[0]->type == node.outputs[0]->type) return inputs[0];
  if (inputs.size() == 1) return undone_source_of(node);
  if (node.op == "Where" && inputs[0]->weight) {
    const auto all_are = [&](bool truth) {
      return std::ranges::all_of(inputs[0]->weight->bytes,
                                 [&](std::byte byte) { return (byte != std::byte{0}) == truth; });
    };
    return all_are(true) ? inputs[1] : all_are(false) ? inputs[2] : nullptr;
  }
  const bool sum = node.op == "Add" || node.op == "Sub", product = node.op == "Mul" || node.op == "Div";
  if (!sum && !product) return nullptr;
  // Only one-element constants: a whole tensor, such as a trained scale, is not neutral and may take part in
  // a fusion of the runtime.
  const auto is_neutral = [&](const ir::Value* value) {
    return value->weight && tensor::number_of(*value->weight) == (product ? 1 : 0);
  };
  if (is_neutral(inputs[1])) return inputs[0];
  const bool commutes = node.op == "Add" || node.op == "Mul";
  return commutes && is_neutral(inputs[0]) ? inputs[1] : nullptr;
}

}  // namespace

bool remove_identities(ir::Graph& graph) {
  ir::Uses uses(graph);
  return uses.for_each_node([&](ir::Graph&, ir::Node& node) {
    ir::Value* source = source_of(node);
    // A node that broadcasts its input must stay.
    if (source && source->type == node.outputs[0]->type && !uses.is_output(node.outputs[0]))
      uses.replace(node.outputs[0], source);
  });
}

}  // namespace opbridge::simplification
