#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::standard {

// The values of the next step, of the same types. Its nodes are made with `on`; `index` is 0-d int64.
using Step = std::function<std::vector<Value>(GraphBuilder& on, Value index, std::span<const Value> values)>;

// Takes `count` (0-d int64) steps from `start`, with index 0, 1, …, by ONNX's Loop; `name` is the body's.
std::vector<Value> counted_loop(GraphBuilder& g, std::string name, Value count,
                                const std::vector<Value>& start, const Step& step);

}  // namespace opbridge::standard
