// What a node's attributes say about its outputs: the bodies of If, Loop and Scan, and the value of Constant.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "opbridge/symbolic.h"

namespace opbridge {

struct NodeParts {
  std::string_view op;
  std::span<const Value> inputs;
  std::span<const ir::Attribute> attributes;
};

// Sets the types of the outputs as far as the attributes tell them. `unknown_size` makes a dim of its own for
// each size that only running the model tells. Returns what is wrong with the attributes, if anything is.
std::optional<std::string> apply_attributes(const NodeParts& node, std::span<ir::TensorType> outputs,
                                            const std::function<Dim()>& unknown_size);

}  // namespace opbridge
