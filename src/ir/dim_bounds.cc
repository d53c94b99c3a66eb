#include <algorithm>
#include <vector>

#include "ir/dim_expr.h"

namespace opbridge::dim_expr {
namespace {

using Kind = Expr::Kind;
using Bound = std::optional<int64_t>;

int64_t rounded_down(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

}  // namespace

std::optional<int64_t> least(const Expr& expr) {
  if (expr.kind == Kind::integer) return expr.value;
  if (expr.kind == Kind::symbol) return expr.least;
  std::vector<Bound> bounds;
  for (const ExprPtr& operand : expr.operands) bounds.push_back(least(*operand));
  const auto all_from = [&](int64_t bottom) {
    return std::ranges::all_of(bounds, [&](Bound bound) { return bound && *bound >= bottom; });
  };
  const auto all_known = [&] {
    return std::ranges::all_of(bounds, [](Bound bound) { return bound.has_value(); });
  };
  const auto fold = [&](bool (*combine)(int64_t, int64_t, int64_t*)) -> Bound {
    int64_t result = *bounds.front();
    for (size_t i = 1; i < bounds.size(); ++i) {
      if (combine(result, *bounds[i], &result)) return std::nullopt;
    }
    return result;
  };
  switch (expr.kind) {
    case Kind::add:
      if (!all_known()) return std::nullopt;
      return fold([](int64_t a, int64_t b, int64_t* sum) { return __builtin_add_overflow(a, b, sum); });
    case Kind::mul:
      if (!all_from(0)) return std::nullopt;
      return fold(
          [](int64_t a, int64_t b, int64_t* product) { return __builtin_mul_overflow(a, b, product); });
    case Kind::min:
      return all_known() ? *std::ranges::min_element(bounds) : std::nullopt;
    case Kind::max:
      return *std::ranges::max_element(bounds);  // an unknown bound is less than any
    case Kind::floor_div: {
      const Bound above = bounds[0], below = bounds[1];
      if (!above || !below || *below < 1) return std::nullopt;
      if (expr.operands[1]->kind == Kind::integer) return rounded_down(*above, *below);
      return std::min<int64_t>(*above, 0);
    }
    case Kind::mod:  // has the sign of the divisor
      return bounds[1] && *bounds[1] >= 1 ? Bound(0) : std::nullopt;
    case Kind::pow:
      if (!all_from(0)) return std::nullopt;
      return std::min<int64_t>(*bounds[0], 1);
    case Kind::true_div:
      return all_from(0) ? Bound(0) : std::nullopt;
    case Kind::floor:
    case Kind::ceil:
      return bounds.front();
    default:
      return std::nullopt;
  }
}

}  // namespace opbridge::dim_expr
