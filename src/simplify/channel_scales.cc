// Folds constant factors of channels, such as the layer scales of ConvNeXt, CaiT and BEiT, into the weights
// of the convolution or matrix product before them.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ir/attribute_or.h"
#include "ir/dead_code.h"
#include "ir/uses.h"
#include "simplify/folded_weights.h"
#include "simplify/passes.h"
#include "simplify/transpose.h"
#include "tensor/evaluate.h"

namespace opbridge::simplification {
namespace {

bool is(const ir::Node* node, std::string_view op) { return node && node->op == op; }

const ir::Weight* float32_weight(const ir::Value* value) {
  const bool usable = value && value->weight && value->weight->element_type == ElementType::float32;
  return usable ? value->weight : nullptr;
}

// The axis of the result that is `axis` of the input of `transpose`.
int64_t moved_axis(const ir::Node& transpose, int64_t axis) {
  const Permutation permutation = permutation_of(transpose);
  return std::ranges::find(permutation, axis) - permutation.begin();
}

// Whether `scale`, broadcast to a tensor of that rank, varies along `axis` only, with one factor for each
// index.
bool varies_along(const ir::Weight& scale, int64_t axis, size_t rank) {
  const size_t missing = rank - std::min(rank, scale.dims.size());
  if (scale.dims.size() > rank || static_cast<size_t>(axis) < missing) return false;
  return scale.dims[static_cast<size_t>(axis) - missing] == scale.element_count();
}

class ChannelScales {
 public:
  explicit ChannelScales(ir::Graph& graph) : graph_(graph), uses_(graph), names_(graph) {}

  bool fold() {
    std::unordered_set<const ir::Node*> folded;
    uses_.for_each_node([&](ir::Graph&, ir::Node& node) {
      if (is(&node, "Mul") && (fold(node, 0, 1) || fold(node, 1, 0))) folded.insert(&node);
    });
    ir::erase_nodes(graph_, folded);
    return !folded.empty() && ir::remove_dead_code(graph_);
  }

 private:
  // A convolution or a matrix product with weights that nothing else uses.
  struct Linear {
    ir::Node* node;
    ir::Node* biased = nullptr;  // the node that adds a 1-d bias, if any
    size_t bias = 0;             // the index of the bias among its inputs
    int64_t axis = 1;            // of the channels, in the result
    size_t rank = 0;             // of the result
  };

  bool fold(ir::Node& multiplication, size_t scaled, size_t constant) {
    ir::Value* value = multiplication.inputs[scaled];
    const ir::Weight* scale = float32_weight(multiplication.inputs[constant]);
    ir::Node* made_by = uses_.producer_beside(multiplication, value);
    if (!scale || scale->element_count() < 2 || !made_by || !uses_.once(value)) return false;
    ir::Node& last = *made_by;
    const std::optional<Linear> linear = linear_of(last, is_transpose(&last) ? *last.inputs[0] : *value);
    if (!linear) return false;
    const int64_t axis = is_transpose(&last) ? moved_axis(last, linear->axis) : linear->axis;
    if (!varies_along(*scale, axis, linear->rank)) return false;
    if (!multiply(*linear, scale->as<float>())) return false;
    uses_.take_over_result(last, multiplication);
    return true;
  }

  // The linear operator that makes `value`, if it is in the same graph as `anchor`.
  std::optional<Linear> linear_of(const ir::Node& anchor, const ir::Value& value) {
    ir::Node* node = uses_.producer_beside(anchor, &value);
    const auto* type = std::get_if<ir::TensorType>(&value.type);
    if (!node || !type || !type->dims || !uses_.once(&value)) return std::nullopt;
    if (is(node, "Conv") || is(node, "Gemm")) {
      if (is(node, "Gemm") &&
          (node->attributes.size() != 1 || ir::attribute_or<int64_t>(*node, "transB", 0) != 1)) {
        return std::nullopt;
      }
      const bool biased = node->inputs.size() > 2 && node->inputs[2];
      return Linear{node, biased ? node : nullptr, 2, 1, type->rank()};
    }
    const auto last_axis = static_cast<int64_t>(type->rank()) - 1;
    if (is(node, "MatMul")) return Linear{node, nullptr, 0, last_axis, type->rank()};
    if (!is(node, "Add")) return std::nullopt;
    const size_t index = is(uses_.producer_beside(*node, node->inputs[0]), "MatMul") ? 0 : 1;
    ir::Node* product = uses_.producer_beside(*node, node->inputs[index]);
    if (!is(product, "MatMul") || !uses_.once(node->inputs[index])) return std::nullopt;
    return Linear{product, node, 1 - index, last_axis, type->rank()};
  }

  bool multiply(const Linear& linear, std::span<const float> factors) {
    const ir::Value* input = linear.node->inputs[1];
    const bool by_columns = is(linear.node, "MatMul");
    const ir::Node* before = uses_.producer_beside(*linear.node, input);
    const bool transposed = by_columns && is_transpose(before);
    const ir::Value* stored = transposed ? before->inputs[0] : input;
    const ir::Weight* weight = float32_weight(stored);
    if (!weight || !uses_.once(input) || !uses_.once(stored)) return false;
    const size_t axis = by_columns && !transposed ? 1 : 0;
    const bool fits = by_columns ? weight->dims.size() == 2 : weight->dims.size() > axis;
    if (!fits || weight->dims[axis] != std::ssize(factors)) return false;
    const ir::Value* bias = linear.biased ? linear.biased->inputs[linear.bias] : nullptr;
    const ir::Weight* shift = float32_weight(bias);
    if (bias && (!shift || shift->dims != std::vector<int64_t>{std::ssize(factors)})) return false;
    if (!std::ranges::all_of(factors, [](float factor) { return std::isfinite(factor); })) return false;
    if (bytes_ + weight->bytes.size() > most_folded_bytes) return false;
    bytes_ += weight->bytes.size();
    // Other users of the bias keep the old one.
    if (bias) uses_.set_input(*linear.biased, linear.bias, added(*bias, scaled(*shift, 0, factors)));
    ir::Weight product =
        transposed ? transposed_and_scaled(*weight, factors) : scaled(*weight, axis, factors);
    uses_.set_input(*linear.node, 1, added(*input, std::move(product)));
    return true;
  }

  ir::Value* added(const ir::Value& old, ir::Weight weight) {
    return graph_.add_initializer(names_.unused(old.name + ":scaled"), std::move(weight));
  }

  ir::Graph& graph_;
  ir::Uses uses_;
  ir::Names names_;
  size_t bytes_ = 0;
};

}  // namespace

bool fold_channel_scales(ir::Graph& graph) { return ChannelScales(graph).fold(); }

}  // namespace opbridge::simplification
