// Versions: all that were tried, 1.20 and 1.32.
// Model: ConvTranspose with a result of no elements; with an output_padding between the stride and the
// dilation.
// Fault: the runtime fails; 1.20 computes the second.
// Rewrite: a constant, or an If where the sizes are dynamic; a Pad of the result with zeros, since no
// products are added there, before the bias is added.
// Tests: test_runtime_faults.py, test_lowering_convolution.py.
#include <algorithm>

#include "ir/attribute_or.h"
#include "lowering/branch.h"
#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

using Ints = std::vector<int64_t>;

// What a ConvTranspose states of its spatial axes.
struct Windows {
  Ints padding, strides, dilations, pads;

  explicit Windows(const ir::Node& convolution, size_t axes)
      : padding(ir::attribute_or(convolution, "output_padding", Ints(axes, 0))),
        strides(ir::attribute_or(convolution, "strides", Ints(axes, 1))),
        dilations(ir::attribute_or(convolution, "dilations", Ints(axes, 1))),
        pads(ir::attribute_or(convolution, "pads", Ints(2 * axes, 0))) {}

  // The size of the result along an axis, of an input of one element, the least that PyTorch accepts.
  Dim least(size_t axis, const Dim& kernel) const {
    const int64_t axes = std::ssize(padding);
    return Dim(dilations[axis]) * (kernel - 1) + 1 + padding[axis] - pads[axis] - pads[axis + axes];
  }
};

// The number of elements along the axes on which there may be none; 1 if there is no such axis.
Dim uncertain_sizes(const Windows& windows, const ir::TensorType& result, Value weight) {
  Dim count = 1;
  for (size_t i = 0; i < windows.padding.size(); ++i) {
    const Dim least = windows.least(i, weight.dims()[i + 2]);
    if (!least.is_static() || least.value() < 1) count = count * (*result.dims)[i + 2];
  }
  return count;
}

}  // namespace

Value transposed_convolution(GraphBuilder& g, const ir::Node& convolution) {
  const ir::TensorType& result = convolution.outputs[0]->tensor_type();
  if (result.dims && lowering::element_count(*result.dims).is(0))
    return lowering::filled(g, *result.dims, 0, result.element_type);
  if (result.element_type == ElementType::float64) return {};  // float64_windows.cc

  const Value x(convolution.inputs[0]), weight(convolution.inputs[1]),
      bias(convolution.inputs.size() > 2 ? convolution.inputs[2] : nullptr);
  if (!result.dims || !weight.ranked()) return {};
  const size_t axes = result.dims->size() - 2;
  Windows windows(convolution, axes);
  const Dim count = uncertain_sizes(windows, result, weight);
  Ints beyond(2 * (axes + 2), 0);  // the Pad
  for (size_t i = 0; i < axes; ++i) {
    const int64_t rest = std::max<int64_t>(0, windows.padding[i] - (windows.strides[i] - 1));
    beyond[axes + 4 + i] = rest;
    windows.padding[i] -= rest;
  }
  const bool is_padded = std::ranges::any_of(beyond, [](int64_t size) { return size != 0; });
  if (!is_padded && count.is_static()) return {};

  const auto convolved = [&](GraphBuilder& some) -> std::vector<Value> {
    std::vector<Operand> operands{x, weight};
    if (bias && !is_padded) operands.emplace_back(bias);
    add_attributes(operands, convolution, {"output_padding"});
    operands.push_back(attr("output_padding", windows.padding));
    Value made = some.op_list("ConvTranspose", 1, std::move(operands)).front();
    if (!is_padded) return {some.typed(made, result)};
    made = some.op("Pad", made, some.ints(beyond), some.scalar_like(made, 0));
    if (!bias) return {made};
    std::vector<Dim> per_channel(axes + 1, Dim(1));
    per_channel[0] = bias.dim(0);
    return {some.op("Add", made, some.reshape(bias, per_channel))};
  };
  const auto empty = [&](GraphBuilder& none) -> std::vector<Value> {
    return {lowering::filled(none, *result.dims, 0, result.element_type)};
  };
  return lowering::unless_none(g, count, 1, empty, convolved).front();
}

}  // namespace opbridge::onnxruntime
