// Versions: 1.20, up to opset 20, and 1.31, which does not fuse an AveragePool; 1.32 does not have the fault.
// Model: a Pad of zeros before a MaxPool or an AveragePool.
// Fault: the runtime fuses the Pad into the pool's own padding, which MaxPool treats as -inf and AveragePool
// may not count. The kernels also reject padding that is not smaller than the window.
// Rewrite: the Pad names its axes (from opset 18 on), or a Reshape to the same shape follows it. Neither form
// is fused into the pool.
// Tests: test_runtime_faults.py, test_lowering_pooling.py, and APadOutsideABodyIsKeptFromThePoolInside.
#include <numeric>

#include "ir/rewriter.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {
namespace {

// Whether ONNX Runtime may fuse the node into the pool after it.
bool is_fused(const ir::Node* node) {
  if (!node || node->op != "Pad" || node->inputs.size() > 3) return false;
  const ir::AttributeValue* mode = node->find("mode");
  return (!mode || std::get<std::string>(*mode) == "constant") && node->inputs.size() > 1 &&
         node->inputs[1]->weight;
}

size_t rank_of(const ir::Node& pad) {
  return static_cast<size_t>(pad.inputs[1]->weight->element_count() / 2);
}

void name_axes(ir::Rewriter& rewriter, ir::Node& pad) {
  std::vector<int64_t> axes(rank_of(pad));
  std::iota(axes.begin(), axes.end(), 0);
  pad.inputs.resize(4, nullptr);
  pad.inputs[3] = rewriter.add_constant(pad.outputs[0]->name + ":axes", axes);
}

void reshape_between(ir::Rewriter& rewriter, const ir::Node& pad, ir::Node& pool) {
  ir::Value* padded = pad.outputs[0];
  const std::vector<int64_t> same(rank_of(pad), 0);
  ir::Value* shape = rewriter.add_constant(padded->name + ":shape", same);
  ir::Node* reshape = rewriter.add(pool, "Reshape", {padded, shape});
  pool.inputs[0] = rewriter.add_result(reshape, padded->name + ":apart", padded->type);
}

}  // namespace

void keep_pads_before_pools(ir::Graph& graph, ir::Names& names, int opset) {
  ir::rewrite_nodes(graph, names, [&](ir::Rewriter& rewriter, ir::Node& node) {
    const bool is_pool = node.op == "MaxPool" || node.op == "AveragePool";
    ir::Node* pad = is_pool ? node.inputs[0]->producer : nullptr;
    if (is_fused(pad)) {
      if (opset >= 18) {
        name_axes(rewriter, *pad);
      } else {
        reshape_between(rewriter, *pad, node);
      }
    }
    rewriter.append(node);
  });
}

}  // namespace opbridge::onnxruntime
