// What becomes of each operator of a program.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "opbridge/convert.h"

namespace opbridge {

// Gathers what happens to the calls while a program is lowered.
class DiagnosisLog {
 public:
  // A call with `mapping`, if it has one, whose nodes are `made`; `refused` where it does not hold for the
  // call.
  void add(const ir::Node& call, std::optional<Origin> mapping, bool refused,
           std::span<ir::Node* const> made);
  std::vector<OperatorDiagnosis> operators() && { return std::move(operators_); }

 private:
  std::vector<OperatorDiagnosis> operators_;
  std::unordered_map<std::string, size_t> places_;  // of each among them
};

// Of a pure program.
Diagnosis diagnose_lowering(const ir::Graph& graph, const SymbolicRegistry& registry,
                            const ConvertOptions& options);

}  // namespace opbridge
