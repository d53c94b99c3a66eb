// Versions: all that were tried, 1.20 and 1.32.
// Model: ConvTranspose with a result of no elements; with an output_padding between the stride and the
// dilation.
// Fault: the runtime fails; 1.20 computes the second.
// Rewrite: a constant; a Pad of the result with zeros, since no products are added there, before the bias is
// added.
// Tests: test_runtime_faults.py, test_lowering_convolution.py.
#include <algorithm>

#include "ir/attribute_or.h"
#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

using Ints = std::vector<int64_t>;

}  // namespace

Value transposed_convolution(GraphBuilder& g, const ir::Node& convolution) {
  const ir::TensorType& result = convolution.outputs[0]->tensor_type();
  if (result.dims && lowering::element_count(*result.dims).is(0))
    return lowering::filled(g, *result.dims, 0, result.element_type);
  if (result.element_type == ElementType::float64) return {};  // float64_windows.cc

  const Value x(convolution.inputs[0]), weight(convolution.inputs[1]),
      bias(convolution.inputs.size() > 2 ? convolution.inputs[2] : nullptr);
  Ints padding = ir::attribute_or(convolution, "output_padding", Ints());
  const size_t axes = padding.size();
  const Ints strides = ir::attribute_or(convolution, "strides", Ints(axes, 1));
  Ints beyond(2 * (axes + 2), 0);  // the Pad
  for (size_t i = 0; i < axes; ++i) {
    const int64_t rest = std::max<int64_t>(0, padding[i] - (strides[i] - 1));
    beyond[axes + 4 + i] = rest;
    padding[i] -= rest;
  }
  if (std::ranges::all_of(beyond, [](int64_t size) { return size == 0; })) return {};

  std::vector<Operand> operands{x, weight};
  add_attributes(operands, convolution, {"output_padding"});
  operands.push_back(attr("output_padding", padding));
  Value made = g.op_list("ConvTranspose", 1, std::move(operands)).front();
  made = g.op("Pad", made, g.ints(beyond), g.scalar_like(made, 0));
  if (!bias) return made;
  std::vector<Dim> per_channel(axes + 1, Dim(1));
  per_channel[0] = bias.dim(0);
  return g.op("Add", made, g.reshape(bias, per_channel));
}

}  // namespace opbridge::onnxruntime
