// Versions: all that were tried, 1.20 to 1.32.
// Model: DequantizeLinear(QuantizeLinear(x)) quantized and dequantized again, with another scale or zero
// point.
// Fault: the runtime removes the first two nodes and lets the others limit the values: values that are first
// rounded to integers and then to twentieths are only rounded to twentieths.
// Rewrite: a Max with -inf, which changes nothing, between the pairs.
// Tests: test_runtime_faults.py, test_values_are_quantized_twice.
#include <algorithm>

#include "ir/queries.h"
#include "ir/readers.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

// Whether the nodes have the same scale and zero point, in the same values.
bool has_same_levels(const ir::Node& a, const ir::Node& b) {
  return a.inputs.size() == b.inputs.size() &&
         std::equal(a.inputs.begin() + 1, a.inputs.end(), b.inputs.begin() + 1);
}

bool is_repeated(const ir::Node& node, const ir::Readers& readers) {
  if (node.op != "DequantizeLinear") return false;
  const ir::Node* before = ir::producer_of(node.inputs[0], "QuantizeLinear");
  return before && std::ranges::any_of(readers.of(node.outputs[0]), [&](const ir::Node* reader) {
           return reader->op == "QuantizeLinear" && reader->inputs[0] == node.outputs[0] &&
                  !has_same_levels(*before, *reader);
         });
}

}  // namespace

void keep_repeated_quantization(ir::Graph& graph, ir::Names& names) {
  set_apart_where(graph, names, is_repeated);
}

}  // namespace opbridge::onnxruntime
