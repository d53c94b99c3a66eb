// Versions: 1.20 to 1.32, each with some of these faults.
// Model: y = MatMul(x, DequantizeLinear(w, scale)), with w constant, also with a Transpose between, or Conv.
// Faults: the runtime computes the weight at each run, which takes longer than the product; a product with a
// weight of 8 bits becomes a MatMulNBits, which rounds x to 8 bits; in 1.20, a model with a Transpose of int8
// with a scale for each row and no zero points cannot be loaded.
// Rewrite: Mul(Sub(Cast(w), zero), scale), which the runtime folds when it loads the model. Where the weight
// is multiplied by a value that is dequantized too, the operators stay: the runtime multiplies integers.
// Tests: test_runtime_faults.py, test_quantized_models.py.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "ir/dead_code.h"
#include "ir/uses.h"
#include "runtimes/dequantized.h"
#include "runtimes/onnxruntime/faults.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

using Dims = std::vector<int64_t>;

const ir::Node* before_transpose(const ir::Value* value) {
  const ir::Node* node = value ? value->producer : nullptr;
  return node && node->op == "Transpose" ? before_transpose(node->inputs[0]) : node;
}

bool is_dequantized_value(const ir::Node* node) {
  return node && node->op == "DequantizeLinear" && !node->inputs[0]->weight;
}

// The nodes that make the factors of products of integers, and biases of such.
std::unordered_set<const ir::Node*> of_integer_products(ir::Graph& graph) {
  std::unordered_set<const ir::Node*> found;
  for (const ir::Graph* each : ir::all_graphs(graph)) {
    for (const ir::Node* node : each->nodes) {
      if (node->inputs.size() < 2 || !is_dequantized_value(before_transpose(node->inputs[0]))) continue;
      for (const ir::Value* input : node->inputs) found.insert(before_transpose(input));
    }
  }
  return found;
}

class Rewriter {
 public:
  Rewriter(ir::Graph& root, ir::Graph& graph, ir::Names& names,
           const std::unordered_set<const ir::Node*>& kept)
      : root_(root), graph_(graph), names_(names), kept_(kept) {}

  bool run() {
    const std::vector<ir::Node*> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    bool changed = false;
    for (ir::Node* node : before) {
      const std::optional<Dequantized> weight = kept_.contains(node) ? std::nullopt : dequantized(node);
      if (weight) {
        rewrite(*weight);
      } else {
        graph_.nodes.push_back(node);
      }
      changed |= weight.has_value();
    }
    return changed;
  }

 private:
  void rewrite(const Dequantized& weight) {
    node_ = weight.node;
    const Dims& dims = weight.integers.dims;
    dims_ = dims;
    Dims of_scales;  // that broadcast with dims_
    if (weight.axis) {
      const auto axis = static_cast<std::ptrdiff_t>(*weight.axis);
      of_scales = weight.scale.dims.size() == dims.size() ? weight.scale.dims : Dims(dims.size(), 1);
      of_scales[*weight.axis] = dims[*weight.axis] / weight.block;
      if (weight.block > 1) {
        dims_[*weight.axis] /= weight.block;
        dims_.insert(dims_.begin() + axis + 1, weight.block);
        of_scales.insert(of_scales.begin() + axis + 1, 1);
      }
    }
    // Older versions have no Cast of 4-bit integers.
    const ElementType type = weight.integers.element_type == ElementType::int4 ? ElementType::int8
                             : weight.integers.element_type == ElementType::uint4
                                 ? ElementType::uint8
                                 : weight.integers.element_type;
    ir::Value* integers = constant(":integers", *tensor::convert_weight(weight.integers, type), dims_);
    ir::Value* value = then("Cast", {integers}, {{"to", static_cast<int64_t>(ElementType::float32)}});
    if (weight.zero) {
      ir::Weight zeros = *tensor::convert_weight(*weight.zero, ElementType::float32);
      value = then("Sub", {value, constant(":zeros", std::move(zeros), of_scales)});
    }
    value = then("Mul", {value, constant(":scales", weight.scale, of_scales)});
    if (dims_ != dims) {
      const auto rank = static_cast<int64_t>(dims.size());
      value = then("Reshape", {value, constant(":shape", ir::Weight::of<int64_t>(dims, {rank}), {rank})});
    }
    ir::Node* last = value->producer;
    last->outputs = {node_->outputs[0]};
    node_->outputs[0]->producer = last;
  }

  ir::Value* constant(const char* suffix, ir::Weight made, Dims dims) {
    made.dims = std::move(dims);
    return root_.add_initializer(names_.unused(node_->inputs[0]->name + suffix), std::move(made));
  }

  ir::Value* then(const char* op, std::vector<ir::Value*> inputs,
                  std::vector<ir::Attribute> attributes = {}) {
    ir::Node* added =
        ir::add_node_beside(*node_, graph_, names_, op, std::move(inputs), std::move(attributes));
    const ir::TensorType type{ElementType::float32, std::vector<Dim>(dims_.begin(), dims_.end())};
    return graph_.add_output_of(added, names_.unused(node_->outputs[0]->name + ":" + op), type);
  }

  ir::Graph& root_;
  ir::Graph& graph_;
  ir::Names& names_;
  const std::unordered_set<const ir::Node*>& kept_;
  ir::Node* node_ = nullptr;  // that is replaced
  Dims dims_;                 // of the results of the new nodes
};

}  // namespace

bool convert_dequantized_weights(ir::Graph& graph, ir::Names& names) {
  const std::unordered_set<const ir::Node*> kept = of_integer_products(graph);
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= Rewriter(graph, *each, names, kept).run();
  return changed && ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
