// Writes a model; its weights are not copied.
#include "onnx/model_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <vector>

#include "onnx/external_layout.h"
#include "onnx/external_locations.h"
#include "onnx/model_serializer.h"
#include "onnx/weight_references.h"
#include "support/mapped_file.h"
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

// Writes in parts. After each, it reports the progress and releases the pages of mapped files, which the
// process would keep in memory otherwise.
class Writing {
 public:
  Writing(const ConvertOptions& options, uint64_t total) : options_(options), total_(total) {}

  void write(support::OutputFile& file, std::span<const std::span<const std::byte>> pieces) {
    for (std::span<const std::byte> piece : pieces) {
      for (; !piece.empty(); piece = piece.subspan(std::min(piece.size(), most_bytes))) {
        part_.push_back(piece.first(std::min(piece.size(), most_bytes)));
        bytes_ += part_.back().size();
        if (bytes_ >= most_bytes) write_part(file);
      }
    }
    write_part(file);
    file.close();
  }

 private:
  static constexpr size_t most_bytes = size_t{16} << 20;

  void write_part(support::OutputFile& file) {
    file.write(part_);
    for (const std::span<const std::byte> piece : part_) {
      if (file_of(piece, options_.weight_files) != nullptr) support::release_pages(piece);
    }
    written_ += bytes_;
    if (options_.progress != nullptr) options_.progress->advance(written_, total_);
    part_.clear();
    bytes_ = 0;
  }

  const ConvertOptions& options_;
  const uint64_t total_;
  uint64_t written_ = 0;
  std::vector<std::span<const std::byte>> part_;
  size_t bytes_ = 0;  // of the part
};

void refuse_to_replace_weights(const support::OutputFile& file, const std::vector<WeightFile>& weight_files) {
  for (const WeightFile& weights : weight_files) support::refuse_to_replace(file.target(), weights.path);
}

// Whether the model at `path` keeps weights in the regular file `data`, and the new one does not need it.
// Other files of that name are left alone.
bool leaves_data(const std::filesystem::path& path, const std::filesystem::path& data,
                 const std::vector<WeightFile>& weight_files) {
  namespace fs = std::filesystem;
  std::error_code unknown;  // a file that does not exist has no type, and is not the same file
  if (!fs::is_regular_file(fs::symlink_status(data, unknown)) || fs::equivalent(data, path, unknown))
    return false;
  const auto is_data = [&](const WeightFile& weights) { return fs::equivalent(weights.path, data, unknown); };
  return std::ranges::none_of(weight_files, is_data) && refers_to(path, data.filename().string());
}

}  // namespace

WriteReport write_model(const OnnxModel& model, const std::filesystem::path& path,
                        const ConvertOptions& options, uint64_t most_bytes) {
  ir::verify(model.graph);
  NameChecker().check(model.graph);

  const std::filesystem::path data_path = path.string() + ".data";
  ExternalLayout layout(data_path.filename().string());
  WeightReferences references(options.weight_files, path);
  WeightPlaces places;
  if (options.external_data == ExternalData::reference) places.references = &references;
  if (options.external_data == ExternalData::always) places.external = &layout;
  Rope rope = serialize(model, options.source_lines, places);
  if (rope.size() > most_bytes && options.external_data != ExternalData::never) {
    places.external = &layout;
    rope = serialize(model, options.source_lines, places);
  }
  if (rope.size() > most_bytes) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} would take {} bytes{}; the limit of an ONNX file is {}{}", path.string(), rope.size(),
                    places.external != nullptr ? " without its external data" : "", most_bytes,
                    places.external != nullptr ? "" : "; allow external data for the weights"));
  }

  WriteReport report;
  report.model_bytes = rope.size();
  report.external_bytes = layout.size();
  report.referenced_bytes = references.bytes();
  report.referenced_files = references.files();
  if (options.progress != nullptr) options.progress->begin("writing");
  const auto start = std::chrono::steady_clock::now();
  support::OutputFile model_file(path);
  refuse_to_replace_weights(model_file, options.weight_files);
  Writing writing(options, rope.size() + layout.size());
  // With ExternalData::always, the data file is written even if it is empty.
  if (options.external_data != ExternalData::always && layout.size() == 0) {
    writing.write(model_file, rope.pieces());
    const bool is_left = leaves_data(path, data_path, options.weight_files);
    support::publish(model_file);
    std::error_code stays;  // the model does not need the file, and may stay beside it
    if (is_left) std::filesystem::remove(data_path, stays);
  } else {
    support::OutputFile data_file(data_path);
    refuse_to_replace_weights(data_file, options.weight_files);
    if (std::filesystem::weakly_canonical(data_file.final_path()) ==
        std::filesystem::weakly_canonical(model_file.final_path())) {
      throw Error(ErrorCode::io, fmt::format("cannot write {}: its weight file {} is the same file",
                                             path.string(), data_path.string()));
    }
    writing.write(data_file, layout.pieces());
    writing.write(model_file, rope.pieces());
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
