#include "opbridge/schema.h"

#include <fmt/format.h>

namespace opbridge {

std::string SchemaType::str() const {
  std::string text = name;
  if (!alias.empty() || written) {
    text +=
        fmt::format("({}{}{}{})", alias, written ? "!" : "", alias_after.empty() ? "" : " -> ", alias_after);
  }
  if (optional_elements) text += "?";
  if (list) text += fixed_size > 0 ? fmt::format("[{}]", fixed_size) : "[]";
  if (optional) text += "?";
  return text;
}

std::string OperatorSchema::str() const {
  std::string text = key() + "(";
  const auto separate = [&] {
    if (text.back() != '(') text += ", ";
  };
  bool keyword_only = false;
  for (const SchemaArgument& argument : arguments) {
    separate();
    if (argument.keyword_only && !keyword_only) text += "*, ";
    keyword_only = argument.keyword_only;
    text += fmt::format("{} {}", argument.type.str(), argument.name);
    if (argument.default_value) text += fmt::format("={}", ir::str(*argument.default_value));
  }
  if (more_arguments) {
    separate();
    text += "...";
  }
  text += ") -> ";
  if (more_returns && returns.empty()) return text + "...";
  const bool single = returns.size() == 1 && !more_returns && returns.front().type.name.front() != '(';
  if (!single) text += "(";
  for (const SchemaReturn& result : returns) {
    if (!single) separate();
    text += result.type.str();
    if (!result.name.empty()) text += " " + result.name;
  }
  if (more_returns) text += ", ...";
  return single ? text : text + ")";
}

}  // namespace opbridge
