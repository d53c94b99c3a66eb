#include "opbridge/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "torch/traits.h"

namespace opbridge {
namespace {

using symbolic_detail::Parameter;

bool kinds_fit(SchemaType::Kind schema, Parameter::Kind parameter) {
  switch (schema) {
    case SchemaType::Kind::tensor:
      return parameter == Parameter::Kind::value;
    case SchemaType::Kind::scalar:
      return parameter == Parameter::Kind::scalar || parameter == Parameter::Kind::value;
    case SchemaType::Kind::integer:
    case SchemaType::Kind::sym_int:
      return parameter == Parameter::Kind::integer || parameter == Parameter::Kind::dim;
    case SchemaType::Kind::floating:
      return parameter == Parameter::Kind::floating || parameter == Parameter::Kind::scalar;
    case SchemaType::Kind::boolean:
      return parameter == Parameter::Kind::boolean;
    case SchemaType::Kind::string:
      return parameter == Parameter::Kind::string;
    case SchemaType::Kind::element_type:
      return parameter == Parameter::Kind::element_type;
    case SchemaType::Kind::opaque:
      return false;
  }
  return false;
}

}  // namespace

void SymbolicRegistry::check_parameters(const OperatorSchema& schema, std::span<const Parameter> parameters) {
  if (parameters.size() != schema.arguments.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has {} arguments, but its symbolic function takes {}", schema.str(),
                            schema.arguments.size(), parameters.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const SchemaArgument& argument = schema.arguments[i];
    const Parameter& parameter = parameters[i];
    if (parameter.kind == Parameter::Kind::ignored) continue;
    const bool fits = kinds_fit(argument.type.kind, parameter.kind) && argument.type.list == parameter.list &&
                      argument.type.optional == parameter.optional &&
                      argument.type.optional_elements == parameter.optional_elements;
    if (!fits) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: the symbolic function's parameter for {} {} has the wrong type",
                              schema.str(), argument.type.str(), argument.name));
    }
  }
}

void SymbolicRegistry::add(Symbolic symbolic) {
  std::string key = symbolic.key;
  table_[std::move(key)].push_back(std::make_shared<const Symbolic>(std::move(symbolic)));
}

bool SymbolicRegistry::remove(std::string_view key, int opset) {
  auto entry = table_.find(std::string(key));
  if (entry == table_.end()) return false;
  const size_t removed = std::erase_if(entry->second, [&](const auto& symbolic) {
    return symbolic->origin == Origin::user && symbolic->rule.opset() == opset;
  });
  if (entry->second.empty()) table_.erase(entry);
  return removed > 0;
}

const Symbolic* SymbolicRegistry::find(std::string_view key, int opset) const {
  const std::string exact(key), bare(torch::without_overload(key));
  const Symbolic* best = nullptr;
  auto rank_of = [](const Symbolic& s, bool is_exact) {
    return std::tuple(s.origin == Origin::user, is_exact, s.rule.exactly(), s.rule.opset());
  };
  decltype(rank_of(*best, true)) best_rank;
  auto consider = [&](const std::string& name, bool is_exact) {
    const auto entry = table_.find(name);
    if (entry == table_.end()) return;
    for (const auto& symbolic : entry->second) {
      // A function with a schema holds only for its own overload, since overloads have other arguments.
      if (!symbolic->rule.holds_at(opset) || (!is_exact && symbolic->schema)) continue;
      const auto rank = rank_of(*symbolic, is_exact);
      if (!best || rank >= best_rank) {
        best = symbolic.get();
        best_rank = rank;
      }
    }
  };
  consider(exact, true);
  if (bare != exact) consider(bare, false);
  return best;
}

std::optional<int> SymbolicRegistry::first_opset(std::string_view key) const {
  std::optional<int> first;
  for (const std::string& name : {std::string(key), std::string(torch::without_overload(key))}) {
    const auto entry = table_.find(name);
    if (entry == table_.end()) continue;
    for (const auto& symbolic : entry->second) {
      if (name != key && symbolic->schema) continue;  // for another overload
      first = std::min(first.value_or(symbolic->rule.opset()), symbolic->rule.opset());
    }
  }
  return first;
}

std::vector<const Symbolic*> SymbolicRegistry::all() const {
  std::vector<const Symbolic*> symbolics;
  for (const auto& [key, entries] : table_) {
    for (const auto& symbolic : entries) symbolics.push_back(symbolic.get());
  }
  std::ranges::sort(symbolics, {},
                    [](const Symbolic* s) { return std::tuple(s->key, s->rule.opset(), s->rule.exactly()); });
  return symbolics;
}

}  // namespace opbridge
