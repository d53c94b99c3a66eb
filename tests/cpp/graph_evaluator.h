// Evaluates an ONNX graph for given inputs, node by node, for tests of the passes.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/attribute_or.h"
#include "opbridge/ir.h"
#include "tensor/evaluate.h"

namespace opbridge::test {

using Sizes = std::map<std::string, int64_t>;  // of the symbols

class GraphEvaluator {
 public:
  GraphEvaluator(Sizes sizes, std::map<std::string, ir::Weight> inputs)
      : sizes_(std::move(sizes)), inputs_(std::move(inputs)) {}

  // The outputs. Throws if a value does not have its declared type, and for operators that it does not
  // support.
  std::vector<ir::Weight> run(const ir::Graph& graph) {
    for (const ir::Value* input : graph.inputs) define(*input, inputs_.at(input->name));
    for (const ir::Value* weight : graph.initializers) define(*weight, *weight->weight);
    for (const ir::Node* node : graph.nodes) compute(*node);
    std::vector<ir::Weight> outputs;
    for (const ir::Value* output : graph.outputs) outputs.push_back(values_.at(output));
    return outputs;
  }

 private:
  void define(const ir::Value& value, ir::Weight weight) {
    const ir::TensorType& type = value.tensor_type();
    bool right = type.element_type == weight.element_type;
    if (type.ranked()) {
      right &= type.rank() == weight.dims.size();
      for (size_t i = 0; right && i < type.rank(); ++i) right &= evaluated((*type.dims)[i]) == weight.dims[i];
    }
    if (!right) {
      throw std::runtime_error(fmt::format("%{} is declared {} and is [{}]", value.name, type.str(),
                                           fmt::join(weight.dims, ", ")));
    }
    values_.insert_or_assign(&value, std::move(weight));
  }

  int64_t evaluated(const Dim& dim) const {
    return dim.evaluate([&](const std::string& symbol) { return sizes_.at(symbol); });
  }

  void compute(const ir::Node& node) {
    if (node.op == "If") {
      const bool condition = values_.at(node.inputs[0]).bytes[0] != std::byte{0};
      const auto& body = *std::get<ir::GraphPtr>(*node.find(condition ? "then_branch" : "else_branch"));
      const std::vector<ir::Weight> results = run(body);
      for (size_t i = 0; i < results.size(); ++i) define(*node.outputs[i], results[i]);
      return;
    }
    std::vector<const ir::Weight*> inputs;
    for (const ir::Value* input : node.inputs) inputs.push_back(input ? &values_.at(input) : nullptr);
    std::optional<ir::Weight> result = own(node, inputs);
    if (!result) result = tensor::evaluate(node, inputs);
    if (!result) throw std::runtime_error(node.op + " cannot be computed");
    define(*node.outputs[0], *std::move(result));
  }

  // Operators that the passes' own evaluation does not support.
  static std::optional<ir::Weight> own(const ir::Node& node, const std::vector<const ir::Weight*>& inputs) {
    const ir::Weight& x = *inputs.at(0);
    if (node.op == "Shape") {
      const auto rank = static_cast<int64_t>(x.dims.size());
      const std::vector<int64_t> dims(x.dims.begin() + ir::attribute_or<int64_t>(node, "start", 0),
                                      x.dims.begin() + ir::attribute_or<int64_t>(node, "end", rank));
      return ir::Weight::of<int64_t>(dims, {static_cast<int64_t>(dims.size())});
    }
    if (node.op == "Transpose" && !node.find("perm")) {
      std::vector<int64_t> reversed(x.dims.size());
      std::iota(reversed.rbegin(), reversed.rend(), 0);
      ir::Node given;
      given.op = node.op;
      given.set("perm", reversed);
      return tensor::evaluate(given, inputs);
    }
    if (node.op == "Reciprocal") {
      return of_channels(x, [](float value, size_t) { return 1 / value; });
    }
    if (node.op == "BatchNormalization") {
      return of_channels(x, [&](float value, size_t channel) {
        const auto parameter = [&](size_t i) { return inputs.at(i)->as<float>()[channel]; };
        return (value - parameter(3)) / std::sqrt(parameter(4) + 1e-5f) * parameter(1) + parameter(2);
      });
    }
    if (node.op == "Conv")
      return pointwise_convolution(x, *inputs.at(1), inputs.size() > 2 ? inputs[2] : nullptr);
    return std::nullopt;
  }

  template <class Apply>
  static ir::Weight of_channels(const ir::Weight& x, Apply apply) {
    std::vector<float> values(x.as<float>().begin(), x.as<float>().end());
    size_t run = 1;
    for (size_t axis = 2; axis < x.dims.size(); ++axis) run *= static_cast<size_t>(x.dims[axis]);
    const size_t channels = x.dims.size() > 1 ? static_cast<size_t>(x.dims[1]) : 1;
    for (size_t i = 0; i < values.size(); ++i) values[i] = apply(values[i], i / run % channels);
    return ir::Weight::of<float>(values, x.dims);
  }

  // With a window of one element.
  static ir::Weight pointwise_convolution(const ir::Weight& x, const ir::Weight& w, const ir::Weight* bias) {
    const size_t in = static_cast<size_t>(w.dims[1]), out = static_cast<size_t>(w.dims[0]);
    size_t run = 1;
    for (size_t axis = 2; axis < x.dims.size(); ++axis) run *= static_cast<size_t>(x.dims[axis]);
    std::vector<int64_t> dims = x.dims;
    dims[1] = w.dims[0];
    std::vector<float> values;
    for (size_t image = 0; image < static_cast<size_t>(x.dims[0]); ++image) {
      for (size_t channel = 0; channel < out; ++channel) {
        for (size_t position = 0; position < run; ++position) {
          float sum = bias ? bias->as<float>()[channel] : 0;
          for (size_t k = 0; k < in; ++k)
            sum += x.as<float>()[(image * in + k) * run + position] * w.as<float>()[channel * in + k];
          values.push_back(sum);
        }
      }
    }
    return ir::Weight::of<float>(values, dims);
  }

  Sizes sizes_;
  std::map<std::string, ir::Weight> inputs_;
  std::unordered_map<const ir::Value*, ir::Weight> values_;
};

}  // namespace opbridge::test
