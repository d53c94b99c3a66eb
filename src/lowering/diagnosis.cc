#include "lowering/diagnosis.h"

#include <algorithm>

namespace opbridge {

void DiagnosisLog::add(const ir::Node& call, std::optional<Origin> mapping, bool refused,
                       std::span<ir::Node* const> made) {
  const auto [index, is_new] = indices_.try_emplace(call.op, operators_.size());
  if (is_new) operators_.push_back({call.op, 0, 0, mapping, {}});
  OperatorDiagnosis& entry = operators_[index->second];
  ++entry.calls;
  if (refused) {
    ++entry.refused;
    return;  // `made` is incomplete
  }
  for (const ir::Node* node : made) {
    if (std::ranges::find(entry.becomes, node->op) == entry.becomes.end()) entry.becomes.push_back(node->op);
  }
}

}  // namespace opbridge
