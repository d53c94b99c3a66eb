#include "lowering/diagnosis.h"

#include <algorithm>

namespace opbridge {

void DiagnosisLog::add(const ir::Node& call, std::optional<Origin> mapping, bool refused,
                       std::span<ir::Node* const> made) {
  const auto [index, is_new] = indices_.try_emplace(call.op, operators_.size());
  if (is_new) {
    operators_.push_back({call.op, 0, 0, mapping, {}});
    made_.emplace_back();
  }
  OperatorDiagnosis& entry = operators_[index->second];
  ++entry.calls;
  if (refused) {
    ++entry.refused;
    return;  // `made` is incomplete
  }
  calls_.push_back({index->second, false});
  add_nodes(made, calls_.size() - 1);
  made_[index->second].insert(made_[index->second].end(), made.begin(), made.end());
}

void DiagnosisLog::add_nodes(std::span<ir::Node* const> nodes, size_t call) {
  for (const ir::Node* node : nodes) {
    call_of_.try_emplace(node, call);  // nodes of a body belong to the calls in it, which were added before
    for (const ir::GraphPtr& body : node->bodies()) add_nodes(body->nodes, call);
  }
}

void DiagnosisLog::refuse(const ir::Node& made) {
  const auto found = call_of_.find(&made);
  if (found == call_of_.end() || calls_[found->second].refused) return;
  Call& call = calls_[found->second];
  call.refused = true;
  ++operators_[call.op].refused;
}

std::vector<OperatorDiagnosis> DiagnosisLog::operators() const {
  std::vector<OperatorDiagnosis> result = operators_;
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<std::string>& becomes = result[i].becomes;
    for (const ir::Node* node : made_[i]) {
      if (calls_[call_of_.at(node)].refused) continue;
      if (std::ranges::find(becomes, node->op) == becomes.end()) becomes.push_back(node->op);
    }
  }
  return result;
}

}  // namespace opbridge
