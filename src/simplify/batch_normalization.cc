#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ir/attribute_or.h"
#include "ir/dead_code.h"
#include "ir/uses.h"
#include "simplify/folded_weights.h"
#include "simplify/passes.h"
#include "tensor/evaluate.h"

namespace opbridge::simplification {
namespace {

// y = x * scale + shift for each channel.
struct Affine {
  std::vector<float> scale, shift;
};

// Nothing if the parameters are not float32 constants of equal size, or if the result is not finite: folding
// would change the order of multiplications with infinity and NaN.
std::optional<Affine> affine_of(const ir::Node& normalization) {
  std::vector<std::span<const float>> parameters;
  for (const ir::Value* input : std::span(normalization.inputs).subspan(1)) {
    if (!input || !input->weight || input->weight->element_type != ElementType::float32) return std::nullopt;
    parameters.push_back(input->weight->as<float>());
  }
  const ir::AttributeValue* given = normalization.find("epsilon");
  const double epsilon = given ? std::get<double>(*given) : 1e-5;
  const auto &gamma = parameters.at(0), &beta = parameters.at(1), &mean = parameters.at(2),
             &variance = parameters.at(3);
  if (!std::ranges::all_of(parameters, [&](const auto& each) { return each.size() == gamma.size(); }))
    return std::nullopt;
  Affine result;
  for (size_t i = 0; i < gamma.size(); ++i) {
    const double scale = gamma[i] / std::sqrt(variance[i] + epsilon);
    const double shift = beta[i] - mean[i] * scale;
    if (!std::isfinite(scale) || !std::isfinite(shift)) return std::nullopt;
    result.scale.push_back(static_cast<float>(scale));
    result.shift.push_back(static_cast<float>(shift));
  }
  return result;
}

// Folds the normalization into the weight and the bias of the convolution.
bool fold(ir::Graph& graph, ir::Uses& uses, ir::Node& convolution, ir::Node& normalization) {
  const std::optional<Affine> affine = affine_of(normalization);
  if (!affine) return false;
  ir::Value* bias = convolution.inputs.size() > 2 ? convolution.inputs[2] : nullptr;
  std::vector<float> shift = affine->shift;
  const ir::Weight& old_weight = *convolution.inputs[1]->weight;
  const auto has_channels = [&](const ir::Weight& each) {
    return !each.dims.empty() && each.dims[0] == std::ssize(shift);
  };
  if (!has_channels(old_weight)) return false;
  if (bias && (!bias->weight || bias->weight->dims.size() != 1 || !has_channels(*bias->weight))) return false;
  if (bias) {
    const std::span<const float> from = bias->weight->as<float>();
    for (size_t i = 0; i < shift.size(); ++i) shift[i] += from[i] * affine->scale[i];
  }
  const auto channels = static_cast<int64_t>(shift.size());
  const ir::Value& weight = *convolution.inputs[1];
  ir::Value* new_weight = graph.add_initializer(weight.name, scaled(old_weight, 0, affine->scale));
  ir::Value* new_bias = graph.add_initializer(bias ? bias->name : normalization.inputs[2]->name,
                                              ir::Weight::of<float>(shift, {channels}));
  uses.set_inputs(convolution, {convolution.inputs[0], new_weight, new_bias});
  uses.take_over_result(convolution, normalization);
  return true;
}

}  // namespace

bool fold_batch_normalization(ir::Graph& graph) {
  ir::Uses uses(graph);
  std::unordered_set<const ir::Node*> folded;
  size_t bytes = 0;
  uses.for_each_node([&](ir::Graph& holder, ir::Node& node) {
    if (node.op != "BatchNormalization" || node.outputs.size() != 1) return;
    if (ir::attribute_or<int64_t>(node, "training_mode", 0) != 0) return;
    ir::Node* before = uses.producer_beside(node, node.inputs[0]);
    if (!before || before->op != "Conv" || !uses.once(before->outputs[0])) return;
    const ir::Value* weight = before->inputs[1];
    // The new weights take the names of the old ones, so nothing else may use these.
    const bool own = weight->weight && uses.once(weight) && uses.once(node.inputs[2]) &&
                     (before->inputs.size() < 3 || !before->inputs[2] || uses.once(before->inputs[2]));
    if (!own || weight->weight->element_type != ElementType::float32) return;
    const size_t size = weight->weight->bytes.size();
    if (bytes + size > most_folded_bytes || !fold(holder, uses, *before, node)) return;
    bytes += size;
    folded.insert(&node);
  });
  ir::erase_nodes(graph, folded);
  // Remove the old weights; the new ones have their names.
  return !folded.empty() && ir::remove_dead_code(graph);
}

}  // namespace opbridge::simplification
