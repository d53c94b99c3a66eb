// Versions: 1.31 and 1.32; 1.20 does not have the fault.
// Model: q = QuantizeLinear(Conv(DequantizeLinear(p), w)) with a constant w of floats; also with
// ConvTranspose or Gemm, with a Relu or Clip after it, or with a Reshape or the like before it.
// Fault: the runtime rounds w to 8 bits, with one scale for all of it, so that most elements of q may be off
// by a level or two.
// Rewrite: a Max with -inf, which changes nothing, after the product.
// Tests: test_runtime_faults.py, and test_float_weights_between_quantized_tensors.
#include <array>
#include <string_view>

#include "ir/queries.h"
#include "ir/readers.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/moved_levels.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

constexpr std::array<std::string_view, 3> activations = {"Relu", "LeakyRelu", "Clip"};

bool is_product(const ir::Node& node) {
  return node.op == "Conv" || node.op == "ConvTranspose" || node.op == "Gemm";
}

}  // namespace

void keep_float_weights(ir::Graph& graph, ir::Names& names) {
  set_apart_where(graph, names, [](const ir::Node& node, const ir::Readers& readers) {
    return is_product(node) && dequantization_of(node.inputs[0]) &&
           !ir::producer_of(node.inputs[1], "DequantizeLinear") &&
           readers.lead_to("QuantizeLinear", node.outputs[0], activations);
  });
}

}  // namespace opbridge::onnxruntime
