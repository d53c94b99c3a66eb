#include "frontend/symbol_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "opbridge/error.h"

namespace opbridge {
namespace {

// Symbols of floating-point numbers: "zf0", and "zuf0" where the number comes out of a tensor.
bool has_float_symbol(std::string_view text) { return text.find("Symbol('z") != std::string_view::npos; }

}  // namespace

const Dim& SymbolTable::read(std::string_view text) {
  const auto [place, fresh] = read_.try_emplace(text);
  if (!fresh) return place->second;
  try {
    if (!has_float_symbol(text)) return place->second = Dim::parse(text);
  } catch (const Error&) {
    // Not an integer expression: it gets a name below.
  }
  return place->second = Dim::symbol(fmt::format("d{}", named_++));
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
