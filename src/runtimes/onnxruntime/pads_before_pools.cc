// Versions: 1.20, up to opset 20, and 1.31, which does not fuse an AveragePool; 1.32 does not have the fault.
// Model: a Pad of zeros before a MaxPool or an AveragePool. Fault: the runtime fuses the Pad into the pool's
// own padding, which MaxPool treats as -inf and AveragePool may not count. The kernels also reject padding
// that is not smaller than the window. Rewrite: the Pad names its axes (from opset 18 on), or a Reshape to
// the same shape follows it. Neither form is fused into the pool. Tests: test_runtime_faults.py,
// test_lowering_pooling.py, and APadOutsideABodyIsKeptFromThePoolInside.
#include <numeric>

#include "ir/uses.h"
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

ir::Value* ints(ir::Graph& graph, std::string name, const std::vector<int64_t>& values) {
  const std::vector<int64_t> dims{static_cast<int64_t>(values.size())};
  return graph.add_initializer(std::move(name), ir::Weight::of<int64_t>(values, dims));
}

size_t rank_of(const ir::Node& pad) {
  return static_cast<size_t>(pad.inputs[1]->weight->element_count() / 2);
}

class Rewriter {
 public:
  // `root` is the outermost graph, which holds the constants.
  Rewriter(ir::Graph& root, ir::Graph& graph, ir::Names& names, int opset)
      : root_(root), graph_(graph), names_(names), opset_(opset) {}

  void run() {
    const std::vector<ir::Node*> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (ir::Node* node : before) {
      if (node->op == "MaxPool" || node->op == "AveragePool") {
        if (ir::Node* pad = node->inputs[0]->producer; is_fused(pad)) keep_apart(*pad, *node);
      }
      graph_.nodes.push_back(node);
    }
  }

 private:
  void keep_apart(ir::Node& pad, ir::Node& pool) {
    const std::string& name = pad.outputs[0]->name;
    if (opset_ >= 18) {
      std::vector<int64_t> axes(rank_of(pad));
      std::iota(axes.begin(), axes.end(), 0);
      pad.inputs.resize(4, nullptr);
      pad.inputs[3] = ints(root_, names_.unused(name + ":axes"), axes);
      return;
    }
    const std::vector<int64_t> same(rank_of(pad), 0);
    ir::Value* shape = ints(root_, names_.unused(name + ":shape"), same);
    ir::Node* reshape = ir::add_node_beside(pool, graph_, names_, "Reshape", {pad.outputs[0], shape});
    pool.inputs[0] = graph_.add_output_of(reshape, names_.unused(name + ":apart"), pad.outputs[0]->type);
  }

  ir::Graph& root_;
  ir::Graph& graph_;
  ir::Names& names_;
  int opset_;
};

}  // namespace

void keep_pads_before_pools(ir::Graph& graph, ir::Names& names, int opset) {
  for (ir::Graph* each : ir::all_graphs(graph)) Rewriter(graph, *each, names, opset).run();
}

}  // namespace opbridge::onnxruntime
