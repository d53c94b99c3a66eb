// Records how each operator of a program is lowered.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "lowering/missing.h"
#include "opbridge/convert.h"

namespace opbridge {

// Collects for each operator how its calls are lowered.
class DiagnosisLog {
 public:
  // Adds a call. `mapping` is the origin of its mapping, if it has one; `made` are the nodes it became;
  // `refused` says that the mapping does not support the call's arguments.
  void add(const ir::Node& call, std::optional<Origin> mapping, bool refused,
           std::span<ir::Node* const> made);
  // The target refuses `made`, a node of a call that was added, or of a body in one.
  void refuse(const ir::Node& made);
  // The diagnoses, with the names that the nodes have now.
  std::vector<OperatorDiagnosis> operators() const;

 private:
  std::vector<OperatorDiagnosis> operators_;
  std::vector<std::vector<const ir::Node*>> made_;  // by the calls of each
  struct Call {
    size_t op;  // index into operators_
    bool refused;
  };
  void add_nodes(std::span<ir::Node* const> nodes, size_t call);

  std::unordered_map<std::string, size_t> indices_;  // operator → index in operators_
  std::vector<Call> calls_;
  std::unordered_map<const ir::Node*, size_t> call_of_;  // index into calls_
};

// The operators that could be lowered, and those that could not.
struct LoweringDiagnosis {
  DiagnosisLog log;
  OnnxModel model;  // without outputs
  MissingReport report;
};

// Diagnoses a functionalized program.
LoweringDiagnosis diagnose_lowering(const ir::Graph& graph, const SymbolicRegistry& registry,
                                    const ConvertOptions& options);

}  // namespace opbridge
