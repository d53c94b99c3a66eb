// Calls whose arguments and results do not belong together: an altered file has them.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <variant>

#include "opbridge/ir.h"

namespace opbridge::ir {

// Runs `work` on a call. What the standard library throws there, of an axis that is not or a list that is too
// short, becomes Error(unsupported) that names the call.
template <class Work>
void of_consistent_call(const Node& node, Work work) {
  const auto fail = [&](const std::exception& error) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: its arguments and results do not belong together ({})", node.op, error.what()),
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
