// Versions: 1.20; 1.31 and 1.32 do not have the fault.
// Model: a Resize that interpolates, between DequantizeLinear and QuantizeLinear of one scale.
// Fault: the runtime resizes the levels themselves, and its kernel of 8 bits truncates: nearly half of the
// levels are one too low.
// Rewrite: a node that the runtime does not remove stands before the Resize.
// Tests: test_runtime_faults.py, test_averages_halfway_between_two_levels, keep_quantized_resizes.txt.
#include "ir/attribute_or.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

bool interpolates(const ir::Node& node) {
  return node.op == "Resize" && ir::attribute_or<std::string>(node, "mode", "nearest") != "nearest";
}

}  // namespace

void keep_quantized_resizes(ir::Graph& graph, ir::Names& names) {
  ir::rewrite_nodes(graph, names, [](ir::Rewriter& rewriter, ir::Node& node) {
    if (interpolates(node) && ir::producer_of(node.inputs[0], "DequantizeLinear"))
      set_apart_from_input(rewriter, node);
    rewriter.append(node);
  });
}

}  // namespace opbridge::onnxruntime
