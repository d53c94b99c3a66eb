#include "frontend/symbol_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "opbridge/error.h"

namespace opbridge {
namespace {

// Symbolic floats: "zf0", or "zuf0" if the number is read from a tensor.
bool has_float_symbol(std::string_view text) { return text.find("Symbol('z") != std::string_view::npos; }

}  // namespace

const Dim& SymbolTable::read(std::string_view text) {
  const auto [entry, fresh] = read_.try_emplace(text);
  if (!fresh) return entry->second;
  try {
    if (!has_float_symbol(text)) {
      return entry->second = Dim::parse(text, [&](const std::string& name, std::optional<int64_t> least) {
               return symbol(name, least);
             });
    }
  } catch (const Error&) {
    // A Dim cannot express it; a new symbol is made below.
  }
  std::string name;
  do {
    name = fmt::format("d{}", named_++);
  } while (ranges_.contains(name));
  return entry->second = Dim::symbol(std::move(name), std::nullopt);
}

// For an axis of an input, the expression states that the symbol is positive. The range is less reliable:
// torch.export often writes one from 2 although the size may be 1.
Dim SymbolTable::symbol(const std::string& name, std::optional<int64_t> least) const {
  constexpr int64_t least_that_torch_specializes_to = 2;
  const auto known = ranges_.find(name);
  if (known == ranges_.end()) return Dim::symbol(name, least);
  const Range& range = known->second;
  if (!least || (range.least && *range.least > least_that_torch_specializes_to)) least = range.least;
  return Dim::symbol_between(name, least, range.most);
}

bool SymbolTable::known(const Dim& dim) const {
  if (dim.is_static() || learned_.contains(dim.expr().get())) return true;
  return std::ranges::all_of(dim.symbols(), [&](const std::string& name) { return known_.contains(name); });
}

void SymbolTable::learn(const Dim& dim) {
  if (dim.is_static() || !learned_.insert(dim.expr().get()).second) return;
  for (std::string& name : dim.symbols()) known_.insert(std::move(name));
}

}  // namespace opbridge
