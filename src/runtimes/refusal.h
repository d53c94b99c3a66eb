// How the stage of a target reports a node that it does not support.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "opbridge/error.h"
#include "opbridge/ir.h"

namespace opbridge::runtimes {

using Refuse = std::function<void(const ir::Node& node, const Error& error)>;

// Error(unsupported): "aten::foo: REASON", with the PyTorch operator that the node was made for, and its
// line.
inline Error refusal(const ir::Node& node, std::string_view reason) {
  const std::string& op = node.source.op.empty() ? node.op : node.source.op;
  return Error(ErrorCode::unsupported, op + ": " + std::string(reason), node.source.line);
}

}  // namespace opbridge::runtimes
