#include "opbridge/convert.h"

#include "lowering/diagnosis.h"
#include "opbridge/frontend.h"
#include "simplify/passes.h"

namespace opbridge {

namespace {

ir::Graph functionalize(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  FunctionalizeOptions functionalizing;
  functionalizing.mutations_as_outputs = options.mutations_as_outputs;
  functionalizing.schema = [&](std::string_view op) {
    const Symbolic* symbolic = registry.find(op, options.opset);
    return symbolic != nullptr && symbolic->schema ? &*symbolic->schema : nullptr;
  };
  return functionalize(std::move(graph), functionalizing);
}

}  // namespace

Diagnosis diagnose(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  return diagnose_lowering(functionalize(std::move(graph), registry, options), registry, options);
}

OnnxModel to_onnx(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  OnnxModel model = lower(functionalize(std::move(graph), registry, options), registry, options);
  if (model.graph.outputs.empty())
    throw Error(ErrorCode::unsupported, "the model returns no tensor, and an ONNX model has outputs");
  if (options.simplify) simplify(model.graph, options.opset);
  cast_before_rotations(model.graph);
  return model;
}

WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options) {
  return convert(pt2, onnx, options, SymbolicRegistry::with_bundled());
}

WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options, const SymbolicRegistry& registry) {
  return write_onnx(to_onnx(load_exported_program(pt2), registry, options), onnx, options);
}

}  // namespace opbridge
