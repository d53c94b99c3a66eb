#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "opbridge/ir.h"

namespace opbridge::ir {

// The value of an attribute; `fallback` if the attribute is missing or has another kind.
template <class T>
T attribute_or(std::span<const Attribute> attributes, std::string_view name, T fallback) {
  for (const Attribute& attribute : attributes) {
    if (attribute.name != name) continue;
    if (const T* value = std::get_if<T>(&attribute.value)) return *value;
  }
  return fallback;
}

template <class T>
T attribute_or(const Node& node, std::string_view name, T fallback) {
  return attribute_or<T>(node.attributes, name, std::move(fallback));
}

}  // namespace opbridge::ir
