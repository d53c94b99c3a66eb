// Records how each operator of a program is lowered.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "opbridge/convert.h"

namespace opbridge {

// Collects, by operator, how the calls of a program are lowered.
class DiagnosisLog {
 public:
  // Adds a call. `mapping` is the origin of its mapping, if it has one; `made` are the nodes it became;
  // `refused` says that the mapping does not support the call's arguments.
  void add(const ir::Node& call, std::optional<Origin> mapping, bool refused,
           std::span<ir::Node* const> made);
  std::vector<OperatorDiagnosis> operators() && { return std::move(operators_); }

 private:
  std::vector<OperatorDiagnosis> operators_;
  std::unordered_map<std::string, size_t> indices_;  // operator → index in operators_
};

// Diagnoses a functionalized program.
Diagnosis diagnose_lowering(const ir::Graph& graph, const SymbolicRegistry& registry,
                            const ConvertOptions& options);

}  // namespace opbridge
