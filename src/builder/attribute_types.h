// Types of outputs that follow from attributes: the bodies of If, Loop and Scan, and the value of Constant.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "opbridge/symbolic.h"

namespace opbridge::builder {

struct NodeParts {
  std::string_view op;
  std::span<const Value> inputs;
  std::span<const ir::Attribute> attributes;
};

// Sets the types of the outputs as far as they follow from the attributes. `unknown_size` makes a new symbol
// for each size that is known only when the model runs. Returns the text of an error if the attributes are
// invalid.
std::optional<std::string> apply_attributes(const NodeParts& node, std::span<ir::TensorType> outputs,
                                            const std::function<Dim()>& unknown_size);

}  // namespace opbridge::builder
