// Operators that a graph leaves out.
#pragma once

#include <string_view>

namespace opbridge::torch {

// Whether the operator only checks a condition that the capture already knows, or prints or profiles. `op` is
// a key of the registry: "aten::_assert_async.msg".
bool is_assertion(std::string_view op);

}  // namespace opbridge::torch
