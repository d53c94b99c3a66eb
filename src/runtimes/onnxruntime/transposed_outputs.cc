// Versions: 1.20, 1.31 and 1.32.
// Model: an output u of the model, and QuantizeLinear(Transpose(u)), with or without a Reshape or a MaxPool
// between the two.
// Fault: the runtime quantizes u before it is transposed, and returns the quantized values as u too.
// Rewrite: a Max with -inf, which changes nothing, before the Transpose.
// Tests: test_runtime_faults.py, test_quantized_transposes_of_outputs.
#include <array>
#include <string_view>
#include <unordered_set>

#include "ir/readers.h"
#include "ir/rewriter.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

// Nodes that rearrange or select elements.
constexpr std::array<std::string_view, 7> between = {"Flatten", "MaxPool",   "Reshape",  "Slice",
                                                     "Squeeze", "Transpose", "Unsqueeze"};

}  // namespace

void keep_transposed_outputs(ir::Graph& graph, ir::Names& names) {
  for (ir::Graph* each : ir::all_graphs(graph)) {
    const ir::Readers readers(*each);
    const std::unordered_set<const ir::Value*> outputs(each->outputs.begin(), each->outputs.end());
    ir::Rewriter rewriter(graph, *each, names);
    rewriter.run([&](ir::Node& node) {
      if (node.op == "Transpose" && outputs.contains(node.inputs[0]) &&
          readers.lead_to("QuantizeLinear", node.outputs[0], between))
        set_apart_from_input(rewriter, node);
      rewriter.append(node);
    });
  }
}

}  // namespace opbridge::onnxruntime
