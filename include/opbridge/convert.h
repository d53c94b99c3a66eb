// From a PyTorch program to an ONNX file: the whole pipeline, and its stages one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opbridge/ir.h"
#include "opbridge/registry.h"
#include "opbridge/schema.h"

namespace opbridge {

inline constexpr int lowest_opset = 9;
// The newest opset that the oldest supported ONNX Runtime (1.20) loads.
inline constexpr int default_opset = 21;

enum class ExternalData {
  automatic,  // beside the model where it would pass 2 GB, otherwise inside
  always,
  never,  // Error(unsupported) where the model would pass 2 GB
};

struct ConvertOptions {
  int opset = default_opset;
  // Domain → version written to the model. Of a domain not named here, the one that its operators written
  // once need, or 1.
  std::map<std::string, int> custom_opsets = {};
  ExternalData external_data = ExternalData::automatic;
  bool source_lines = true;  // the PyTorch line of each node as its doc_string and metadata
  bool simplify = true;
  // What the program writes to its inputs and buffers becomes further outputs, named `NAME_out`; otherwise
  // such a program is refused.
  bool mutations_as_outputs = false;
  std::vector<std::string> input_names = {};  // in order; empty: the program's own
  std::vector<std::string> output_names = {};
};

struct OnnxModel {
  ir::Graph graph;
  int opset = default_opset;
  std::map<std::string, int> opset_imports;  // all domains in use, "" included
  std::vector<OnnxFunction> functions;
};

struct FunctionalizeOptions {
  // What the program writes to its inputs and buffers becomes further graph outputs, in the order of the
  // first write and named `NAME_out`. Otherwise such a write is an Error(unsupported), because ONNX would
  // lose it.
  bool mutations_as_outputs = false;
  // The schema of an operator outside `aten`, whose alias annotations tell what it writes: `Tensor(a!)`. Null
  // where there is none; an operator without schema writes to its first tensor if its name ends with `_`, and
  // to nothing otherwise.
  std::function<const OperatorSchema*(std::string_view op)> schema;
};

// In-place and view operators become pure ones, `detach`, `clone` and the like become what they are given,
// and nodes whose results nobody uses disappear. Graph inputs count as contiguous, as ONNX has them. Throws
// Error(unsupported) where a mutation could not be kept.
ir::Graph functionalize(ir::Graph graph, const FunctionalizeOptions& options = {});

// Calls the symbolic function of every node. All nodes that have none are gathered into one
// Error(unsupported), which tells how often and where each occurs, which link is missing, and shows a
// skeleton of the symbolic function.
OnnxModel lower(const ir::Graph& graph, const SymbolicRegistry& registry, const ConvertOptions& options);

// Constant folding, common subexpressions, identities, dead code. Values that the graph outputs keep their
// names.
void simplify(ir::Graph& graph, int opset);

struct WriteReport {
  uint64_t model_bytes = 0;
  uint64_t external_bytes = 0;
  std::filesystem::path external_file;  // empty where all is in one file
  double write_seconds = 0;             // what writing the bytes took, of the time that the call took
};

// Writes to a temporary file beside `path` and renames it, so that a failure leaves `path` as it was.
WriteReport write_onnx(const OnnxModel& model, const std::filesystem::path& path,
                       const ConvertOptions& options);

// What becomes of the calls of one operator.
struct OperatorDiagnosis {
  std::string op;                    // "aten::linear"
  size_t calls = 0;                  // subgraphs included
  size_t refused = 0;                // those whose arguments its mapping does not hold for
  std::optional<Origin> mapping;     // nothing where the second link is missing
  std::vector<std::string> becomes;  // the ONNX operators, in order of appearance
};

struct Diagnosis {
  std::vector<OperatorDiagnosis> operators;  // of the pure program, in the order of their first calls
  std::string problems;                      // what lower() would throw; empty where nothing is missing
};

// functionalize → what lower() would do, operator by operator. Throws where a mutation could not be kept.
Diagnosis diagnose(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options);

// functionalize → lower → simplify (optional) → legalize for ONNX Runtime.
OnnxModel to_onnx(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options);

// `.pt2` → `.onnx`, with the bundled mappings or the given ones.
WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options = {});
WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options, const SymbolicRegistry& registry);

}  // namespace opbridge
