#include "torch/traits.h"

#include <algorithm>
#include <array>

namespace opbridge::torch {
namespace {

constexpr auto table = std::to_array<TraitsRow>({
#define ROW(op, effect, view, kind, result, complex) \
  {op, {Effect::effect, ViewKind::view, Kind::kind, Result::result, ComplexRule::complex}},
#include "torch/traits_table.inc"
#undef ROW
});
static_assert(std::ranges::is_sorted(table, {}, &TraitsRow::op), "sort the rows by name");
static_assert(std::ranges::adjacent_find(table, {}, &TraitsRow::op) == table.end(), "one row an operator");

const Traits* find(std::string_view op) {
  const auto row = std::ranges::lower_bound(table, op, {}, &TraitsRow::op);
  return row == table.end() || row->op != op ? nullptr : &row->traits;
}

}  // namespace

std::string_view without_overload(std::string_view op) {
  const size_t name = op.rfind("::");
  return op.substr(0, op.find('.', name == std::string_view::npos ? 0 : name));
}

std::string without_copy(std::string_view op) {
  constexpr std::string_view suffix = "_copy";
  const std::string_view name = without_overload(op);
  const bool is_copying = op.starts_with("aten::") && name.ends_with(suffix) && name != "aten::_to_copy" &&
                          name != "aten::index_copy";
  return is_copying ? std::string(op).erase(name.size() - suffix.size(), suffix.size()) : std::string(op);
}

const Traits& traits_of(std::string_view op) {
  static constexpr Traits none;
  const Traits* traits = find(op);
  if (traits == nullptr) traits = find(without_overload(op));
  return traits == nullptr ? none : *traits;
}

std::span<const TraitsRow> all_traits() { return table; }

}  // namespace opbridge::torch
