// The conversion of a PyTorch program to an ONNX file: the whole pipeline, and each of its stages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opbridge/ir.h"
#include "opbridge/progress.h"
#include "opbridge/registry.h"
#include "opbridge/schema.h"
#include "opbridge/weight_file.h"

namespace opbridge {

inline constexpr int lowest_opset = 9;
// The newest opset that the oldest supported ONNX Runtime (1.20) loads.
inline constexpr int default_opset = 21;

enum class ExternalData {
  automatic,  // in a file beside the model if the model would exceed 2 GB, otherwise inside the model
  always,
  never,  // Error(unsupported) if the model would exceed 2 GB
  // The model points into ConvertOptions::weight_files. They must be in the folder of the model or below it:
  // runtimes refuse other paths. Weights that are not in these files, or that a simplification has changed,
  // are stored as with `automatic`.
  reference,
};

// The operators that the model may use.
enum class Target {
  // ONNX Runtime and opbridge's operators. The rewrites of src/runtimes/onnxruntime apply: they work around
  // faults and missing kernels of ONNX Runtime.
  onnxruntime,
  // The ONNX standard alone, at the chosen opset. Where another target has a node of one of opbridge's
  // operators, the model has standard nodes, or calls an ONNX function of the operator's name. An operator
  // without such a form is refused.
  onnx,
};

// The form that the parameters take in the model: the weights named in ConvertOptions::parameters.
enum class ParametersAs {
  constants,  // initializers, which simplifications may combine with others
  defaults,   // inputs whose default values are the parameters
  inputs,     // inputs without a default value
};

// Output → axis → name of the axis's size. Negative axes count from the end.
using SizeNames = std::map<std::string, std::map<int64_t, std::string>>;

struct ConvertOptions {
  Target target = Target::onnxruntime;
  int opset = default_opset;
  // Domain → version written to the model. A domain not listed here gets the version that its operators
  // (opbridge/operator.h) need, or 1.
  std::map<std::string, int> custom_opsets = {};
  ExternalData external_data = ExternalData::automatic;
  std::vector<WeightFile> weight_files = {};  // from which the graph borrows weights
  Progress* progress = nullptr;
  // Called with warnings about facts that hold only for the captured example.
  std::function<void(const std::string&)> warn = {};
  // Returns the schema of an operator without mapping, so that its skeleton has every argument. Without this
  // function (as for a .pt2 file), or if it returns nothing, the skeleton has the arguments that the calls
  // give.
  std::function<std::optional<OperatorSchema>(const std::string& op)> schema_of = {};
  bool source_lines = true;  // the PyTorch line of each node as its doc_string and metadata
  bool simplify = true;
  // The new values of inputs and buffers that the program writes become additional outputs, named `NAME_out`.
  // If false, such a program is refused.
  bool mutations_as_outputs = false;
  // Dropout in training mode drops elements at random, by the runtime's generator. If false, it is refused.
  bool random = false;
  std::vector<std::string> parameters = {};
  ParametersAs parameters_as = ParametersAs::constants;
  // Names in order; if empty, the program's own. The inputs that are parameters follow the others. If all
  // inputs and all constant parameters have a name here, the parameters are named too.
  std::vector<std::string> input_names = {};
  std::vector<std::string> output_names = {};
  // Names for sizes that depend on data. Sizes that follow from those of the inputs have names already.
  SizeNames output_sizes = {};
};

struct OnnxModel {
  ir::Graph graph;
  int opset = default_opset;
  std::map<std::string, int> opset_imports;  // all domains in use, "" included
  std::vector<OnnxFunction> functions;
  std::vector<std::pair<std::string, ir::Weight>> defaults;   // default values of inputs
  std::vector<std::pair<std::string, std::string>> metadata;  // the file's metadata_props: key and value
  std::vector<std::string> changed;  // what the last outputs are the new values of, as `NAME_out`
};

struct FunctionalizeOptions {
  // The new values of inputs and buffers that the program writes become additional graph outputs, named
  // `NAME_out`, in the order of the first write. If false, such a write is an Error(unsupported), because
  // ONNX would lose it.
  bool mutations_as_outputs = false;
  // Returns the schema of an operator outside `aten`, or null. Its alias annotations (`Tensor(a!)`) say what
  // the operator writes. An operator without a schema is assumed to write to its first tensor if its name
  // ends with `_`, and to nothing otherwise.
  std::function<const OperatorSchema*(std::string_view op)> schema;
  // Called for each write whose effect depends on the memory layout of an example's input.
  std::function<void(const std::string&)> warn;
};

// Replaces in-place and view operators by pure ones, and `detach`, `clone` and the like by their inputs;
// removes nodes whose results are unused. Graph inputs are assumed to be contiguous, as they are in ONNX,
// unless `opbridge::memory_layout` says otherwise. Throws Error(unsupported) if a mutation cannot be
// preserved.
ir::Graph functionalize(ir::Graph graph, const FunctionalizeOptions& options = {});

// Calls the symbolic function of every node. All operators without one are reported in one
// Error(unsupported), which says how often and where each occurs and which link is missing, and shows a
// skeleton of the symbolic function.
OnnxModel lower(const ir::Graph& graph, const SymbolicRegistry& registry, const ConvertOptions& options);

// Folds constants, merges common subexpressions, removes identities and dead code. Graph outputs keep their
// names.
void simplify(ir::Graph& graph);

struct WriteReport {
  uint64_t model_bytes = 0;
  uint64_t external_bytes = 0;
  std::filesystem::path external_file;  // empty if the model is a single file
  uint64_t referenced_bytes = 0;        // of the weights that the model points to
  std::vector<std::filesystem::path> referenced_files;
  double write_seconds = 0;  // time spent writing bytes, a part of the call's duration
};

// Writes to a temporary file beside `path` and renames it, so that a failure leaves `path` as it was.
WriteReport write_onnx(const OnnxModel& model, const std::filesystem::path& path,
                       const ConvertOptions& options);

// Reads a model that opbridge wrote for the options' target, and simplifies it if the options say so.
OnnxModel read_written(const std::filesystem::path& path, const ConvertOptions& options);

// How the calls of one operator would be lowered.
struct OperatorDiagnosis {
  std::string op;                    // "aten::linear"
  size_t calls = 0;                  // subgraphs included
  size_t refused = 0;                // calls with arguments that the mapping does not support
  std::optional<Origin> mapping;     // empty if the operator has no mapping
  std::vector<std::string> becomes;  // the ONNX operators, in order of appearance
};

// An operator without mapping.
struct MissingOperator {
  std::string op = {};  // "tutorial::soft_clip"
  size_t calls = 0;
  std::vector<std::string> locations = {};  // of the calls in the program
  OperatorSchema schema = {};
  // Whether the schema is the operator's own. Otherwise it is derived from the calls: arguments that they
  // leave at their defaults may be missing.
  bool schema_is_known = false;
  size_t results = 0;  // the largest number of results of a call
};

struct Diagnosis {
  std::vector<OperatorDiagnosis> operators;  // after functionalization, in the order of their first calls
  std::vector<MissingOperator> missing;      // of these, the ones without mapping
  std::string problems;                      // message of the error of lower(); empty if it would not fail
};

// Functionalizes the program and reports what lower() would do with each operator. Throws the errors of
// functionalize().
Diagnosis diagnose(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options);

// functionalize → lower → simplify (optional) → legalize for the target.
OnnxModel to_onnx(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options);

// `.pt2` → `.onnx`, with the bundled mappings or the given ones. With ExternalData::reference, the model
// points into the `.pt2`; a weight that is compressed, transposed or not aligned there is an
// Error(unsupported).
WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options = {});
WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options, const SymbolicRegistry& registry);

}  // namespace opbridge
