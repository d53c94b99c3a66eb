// Registration of the bundled mappings.
#pragma once

#include "lowering/families.h"

namespace opbridge::lowering {

// The last arguments of the schemas of operators that create a tensor.
inline constexpr const char* tensor_options =
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";

// `add(registry)("aten::asinh(Tensor self) -> Tensor", Since{9}, [](GraphBuilder& g, Value self) { … });`
inline auto add(SymbolicRegistry& registry) {
  return [&registry](std::string_view schema, OpsetRule rule, auto function) {
    registry.add(schema, rule, std::move(function), Origin::bundled);
  };
}

}  // namespace opbridge::lowering
