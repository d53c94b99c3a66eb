// Writes a model; its weights are not copied.
#include "onnx/model_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "onnx/external_layout.h"
#include "onnx/model_serializer.h"
#include "support/output_file.h"

namespace opbridge {
namespace onnx {
namespace {

// In ONNX, names are unique across a graph and its subgraphs: a subgraph must not shadow a name.
class NameChecker {
 public:
  void check(const ir::Graph& graph) {
    std::vector<std::string_view> own;
    const auto declare = [&](const ir::Value* value) {
      check_named(*value);
      if (!visible_.insert(value->name).second) {
        throw Error(ErrorCode::internal, fmt::format("two values are named {}", value->name));
      }
      own.push_back(value->name);
    };
    for (const ir::Value* value : graph.inputs) declare(value);
    for (const ir::Value* value : graph.initializers) declare(value);
    for (const ir::Node* node : graph.nodes) {
      for (const ir::Value* value : node->inputs) {
        if (value != nullptr) check_named(*value);
      }
      for (const ir::GraphPtr& body : node->bodies()) check(*body);
      for (const ir::Value* value : node->outputs) {
        if (!value->name.empty()) declare(value);  // an output without a name is omitted
      }
    }
    for (const ir::Value* value : graph.outputs) check_named(*value);
    for (const std::string_view name : own) visible_.erase(name);
  }

 private:
  static void check_named(const ir::Value& value) {
    if (value.name.empty()) throw Error(ErrorCode::internal, "a value that is used has no name");
  }

  std::unordered_set<std::string_view> visible_;
};

void write_all(support::OutputFile& file, std::span<const std::span<const std::byte>> pieces) {
  file.write(pieces);
  file.close();
}

}  // namespace

WriteReport write_model(const OnnxModel& model, const std::filesystem::path& path,
                        const ConvertOptions& options, uint64_t most_bytes) {
  ir::verify(model.graph);
  NameChecker().check(model.graph);

  const std::filesystem::path data_path = path.string() + ".data";
  ExternalLayout layout(data_path.filename().string());
  bool external = options.external_data == ExternalData::always;
  Rope rope = serialize(model, options.source_lines, external ? &layout : nullptr);
  if (rope.size() > most_bytes && options.external_data == ExternalData::automatic) {
    external = true;
    rope = serialize(model, options.source_lines, &layout);
  }
  if (rope.size() > most_bytes) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} would take {} bytes{}; the limit of an ONNX file is {}{}", path.string(),
                            rope.size(), external ? " without its external data" : "", most_bytes,
                            external ? "" : "; allow external data for the weights"));
  }

  WriteReport report;
  report.model_bytes = rope.size();
  report.external_bytes = layout.size();
  const auto start = std::chrono::steady_clock::now();
  support::OutputFile model_file(path);
  // With ExternalData::always, the data file is written even if it is empty.
  if (options.external_data != ExternalData::always && layout.size() == 0) {
    write_all(model_file, rope.pieces());
    support::publish(model_file);
  } else {
    support::OutputFile data_file(data_path);
    if (std::filesystem::weakly_canonical(data_file.final_path()) ==
        std::filesystem::weakly_canonical(model_file.final_path())) {
      throw Error(ErrorCode::io, fmt::format("cannot write {}: its weight file {} is the same file",
                                             path.string(), data_path.string()));
    }
    write_all(data_file, layout.pieces());
    write_all(model_file, rope.pieces());
    support::publish(data_file, model_file);
    report.external_file = data_path;
  }
  report.write_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace onnx

WriteReport write_onnx(const OnnxModel& model, const std::filesystem::path& path,
                       const ConvertOptions& options) {
  return onnx::write_model(model, path, options);
}

}  // namespace opbridge
