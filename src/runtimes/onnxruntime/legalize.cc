#include "runtimes/onnxruntime/legalize.h"

#include <unordered_set>

#include "ir/rewrite_log.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {

void legalize(ir::Graph& graph, int opset, const runtimes::Refuse& report) {
  std::unordered_set<const ir::Node*> refused;
  const runtimes::Refuse refuse = [&](const ir::Node& node, const Error& error) {
    if (refused.insert(&node).second) report(node, error);
  };
  ir::RewriteLog log(graph);
  replace_nodes(graph, opset, refuse);
  ir::Names names(graph);
  multiply_four_bits(graph, names);
  convert_dequantized_weights(graph, names);
  shift_signed_factors(graph, names);
  log.note("quantized weights");
  fit_element_types(graph, names, opset, refuse);
  log.note("element types");
  mend_empty_products(graph, names, opset);
  cast_before_rotations(graph, names);
  keep_pads_before_pools(graph, names, opset);
  keep_quantized_resizes(graph, names);
  keep_rounded_products(graph, names);
  keep_float_weights(graph, names);
  keep_repeated_quantization(graph, names);
  keep_transposed_outputs(graph, names);
  compute_small_sigmoids(graph, names);
  keep_lossy_casts(graph, names);
  log.note("faults of ONNX Runtime");
}

}  // namespace opbridge::onnxruntime
