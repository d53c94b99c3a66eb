// The two sources of a PyTorch program: a `.pt2` file, or calls that Python reports one by one, with weights
// from separate files.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "opbridge/ir.h"
#include "opbridge/schema.h"
#include "opbridge/weight_file.h"

namespace opbridge {

// Reads a file written by torch.export.save (schema versions 8.x). Weights are borrowed from the mapped file,
// which the graph keeps alive; pickled entries are never opened. Throws Error(invalid_file) if the file is
// missing, truncated, of another format, or of a newer schema version.
ir::Graph load_exported_program(const std::filesystem::path& path);

enum class WeightsOfProgram {
  readable,  // copied where they are not contiguous and aligned in the file
  in_place,  // such weights are an Error(unsupported), unless smaller than least_separate_bytes
};

// Like load_exported_program(path), for a file that is mapped already.
ir::Graph load_exported_program(const WeightFile& file, WeightsOfProgram weights);

// A tensor of a `.safetensors` file.
struct StoredTensor {
  std::string dtype;  // as the file calls it
  ir::Weight weight;  // borrowed, perhaps not aligned; its element type is undefined if the dtype is unknown
};

// The tensors of a `.safetensors` file by name. Throws Error(invalid_file) if the file is truncated, or if
// its tensors overlap, leave gaps, or have a size that contradicts their shape.
std::map<std::string, StoredTensor> read_safetensors(const WeightFile& file);

// Builds a torch-level graph call by call. The returned pointers are valid as long as the graph.
//
//   ProgramBuilder b;
//   ir::Value* x = b.input("x", type);
//   ir::Value* w = b.weight("linear.weight", weight);
//   ir::Node* n = b.call("aten::linear", {{"input", x}, {"weight", w}}, source);
//   b.output(b.result(n, "y", type));
//   ir::Graph graph = std::move(b).finish();
class ProgramBuilder {
 public:
  ir::Value* input(std::string name, ir::Type type);
  // Weights with the same bytes (by address), dims and element type become one initializer, with the name of
  // the first.
  ir::Value* weight(std::string name, ir::Weight weight);
  ir::Node* call(std::string op, std::vector<ir::Attribute> arguments, ir::Source source = {});
  ir::Value* result(ir::Node* node, std::string name, ir::Type type);
  // Renames the value if a node produces it and it is not an output yet; inputs and weights keep their names.
  void output(ir::Value* value, std::string name = {});
  // Checks the SSA invariants.
  ir::Graph finish() &&;

 private:
  ir::Graph graph_;
  std::unordered_map<const void*, std::vector<ir::Value*>> weights_;
};

// A program that runs as `if_true` where `condition`, which returns one boolean, holds, and otherwise as
// `if_false`; these may be such programs themselves. All three have the same inputs, of which the two may fix
// sizes. to_onnx() makes an If of it. Throws Error(unsupported) if the inputs differ, or the number of
// outputs, or an element type or rank of these; the graphs are left as they were then.
ir::Graph choose(ir::Graph&& condition, ir::Graph&& if_true, ir::Graph&& if_false);

}  // namespace opbridge
