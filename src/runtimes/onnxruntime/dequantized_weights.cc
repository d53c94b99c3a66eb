// Versions: 1.20 to 1.32, each with some of these faults.
// Model: y = MatMul(x, DequantizeLinear(w, scale)), with w constant, with or without a Transpose between the
// two; also Conv.
// Faults: the runtime computes the weight at each run, which takes longer than the product; a product with a
// weight of 8 bits becomes a MatMulNBits, which rounds x to 8 bits; in 1.20, a model with a Transpose of int8
// with a scale for each row and no zero points cannot be loaded.
// Rewrite: Mul(Sub(Cast(w), zero), scale), which the runtime folds when it loads the model. Where the weight
// is multiplied by a value that is dequantized too, the operators stay: the runtime multiplies integers.
// Tests: test_runtime_faults.py, test_quantized_models.py.
#include <unordered_set>
#include <vector>

#include "ir/dead_code.h"
#include "ir/rewriter.h"
#include "runtimes/dequantized.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/moved_levels.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

using Dims = std::vector<int64_t>;

// The nodes that make the factors and the biases of integer products.
std::unordered_set<const ir::Node*> of_integer_products(ir::Graph& graph) {
  std::unordered_set<const ir::Node*> found;
  for (const ir::Graph* each : ir::all_graphs(graph)) {
    for (const ir::Node* node : each->nodes) {
      if (node->inputs.size() < 2 || !dequantization_of(node->inputs[0])) continue;
      for (const ir::Value* input : node->inputs) found.insert(before_transposes(input));
    }
  }
  return found;
}

// Appends nodes that make the result of a DequantizeLinear.
class Conversion {
 public:
  Conversion(ir::Rewriter& rewriter, const runtimes::Dequantized& weight)
      : rewriter_(rewriter), weight_(weight), node_(*weight.node), dims_(weight.integers.dims) {}

  void run() {
    const Dims& dims = weight_.integers.dims;
    Dims of_scales;  // that broadcast with dims_
    if (weight_.axis) {
      const auto axis = static_cast<std::ptrdiff_t>(*weight_.axis);
      of_scales = weight_.scale.dims.size() == dims.size() ? weight_.scale.dims : Dims(dims.size(), 1);
      of_scales[*weight_.axis] = dims[*weight_.axis] / weight_.block;
      if (weight_.block > 1) {
        dims_[*weight_.axis] /= weight_.block;
        dims_.insert(dims_.begin() + axis + 1, weight_.block);
        of_scales.insert(of_scales.begin() + axis + 1, 1);
      }
    }
    // Older versions have no Cast of 4-bit integers.
    const ElementType type = weight_.integers.element_type == ElementType::int4 ? ElementType::int8
                             : weight_.integers.element_type == ElementType::uint4
                                 ? ElementType::uint8
                                 : weight_.integers.element_type;
    ir::Value* integers = constant(":integers", *tensor::convert_weight(weight_.integers, type), dims_);
    ir::Value* value = then("Cast", {integers}, {{"to", static_cast<int64_t>(ElementType::float32)}});
    if (weight_.zero) {
      ir::Weight zeros = *tensor::convert_weight(*weight_.zero, ElementType::float32);
      value = then("Sub", {value, constant(":zeros", std::move(zeros), of_scales)});
    }
    value = then("Mul", {value, constant(":scales", weight_.scale, of_scales)});
    if (dims_ != dims) {
      const auto rank = static_cast<int64_t>(dims.size());
      value = then("Reshape", {value, constant(":shape", ir::Weight::of<int64_t>(dims, {rank}), {rank})});
    }
    ir::set_only_result(value->producer, node_.outputs[0]);
  }

 private:
  ir::Value* constant(const char* suffix, ir::Weight made, Dims dims) {
    made.dims = std::move(dims);
    return rewriter_.add_constant(node_.inputs[0]->name + suffix, std::move(made));
  }

  ir::Value* then(const char* op, std::vector<ir::Value*> inputs,
                  std::vector<ir::Attribute> attributes = {}) {
    ir::Node* added = rewriter_.add(node_, op, std::move(inputs), std::move(attributes));
    const ir::TensorType type{ElementType::float32, std::vector<Dim>(dims_.begin(), dims_.end())};
    return rewriter_.add_result(added, node_.outputs[0]->name + ":" + op, type);
  }

  ir::Rewriter& rewriter_;
  const runtimes::Dequantized& weight_;
  const ir::Node& node_;
  Dims dims_;  // of the results of the new nodes
};

}  // namespace

void convert_dequantized_weights(ir::Graph& graph, ir::Names& names) {
  const std::unordered_set<const ir::Node*> kept = of_integer_products(graph);
  const bool changed = ir::rewrite_nodes(graph, names, [&](ir::Rewriter& rewriter, ir::Node& node) {
    const std::optional<runtimes::Dequantized> weight =
        kept.contains(&node) ? std::nullopt : runtimes::dequantized(&node);
    if (weight) {
      Conversion(rewriter, *weight).run();
    } else {
      rewriter.append(node);
    }
  });
  if (changed) ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
