// Reports calls whose arguments and results contradict each other, as in altered files.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <variant>

#include "opbridge/ir.h"

namespace opbridge::ir {

// Runs `work` on a call. Standard library exceptions (a missing axis, a list that is too short) become
// Error(unsupported) that names the call.
template <class Work>
void of_consistent_call(const Node& node, Work work) {
  const auto fail = [&](const std::exception& error) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: its arguments and results contradict each other ({})", node.op, error.what()),
        node.source.line);
  };
  try {
    work();
  } catch (const std::logic_error& error) {
    fail(error);
  } catch (const std::bad_variant_access& error) {
    fail(error);
  } catch (const std::bad_optional_access& error) {
    fail(error);
  }
}

}  // namespace opbridge::ir
