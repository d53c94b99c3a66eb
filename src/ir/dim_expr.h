// Makers of canonical expressions: whatever they return is folded and ordered, so that expressions which the
// rules below can prove equal have the same structure. They throw Error(invalid_argument) for a division by
// zero and for integers beyond 64 bits.
//
// Sums and products are flat, with like terms and factors gathered and integer factors multiplied out over
// sums; a fraction has its integers and common factors cancelled. Symbols are taken to be other than zero
// where they divide themselves, as sizes in PyTorch are.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "opbridge/dim.h"

namespace opbridge::dim_expr {

ExprPtr integer(int64_t value);
ExprPtr symbol(std::string name, std::optional<int64_t> least);
ExprPtr add(const std::vector<ExprPtr>& terms);
ExprPtr mul(const std::vector<ExprPtr>& factors);
ExprPtr negate(const ExprPtr& a);
ExprPtr floor_div(const ExprPtr& a, const ExprPtr& b);
ExprPtr mod(const ExprPtr& a, const ExprPtr& b);
ExprPtr true_div(const ExprPtr& a, const ExprPtr& b);
ExprPtr pow(const ExprPtr& base, const ExprPtr& exponent);
ExprPtr floor(const ExprPtr& a);
ExprPtr ceil(const ExprPtr& a);
ExprPtr min(const std::vector<ExprPtr>& operands);
ExprPtr max(const std::vector<ExprPtr>& operands);

// Whether the value is an integer for all integer values of the symbols, as far as the structure tells.
bool is_integral(const Expr& expr);

// A bound that the structure proves; nothing where it proves none, or none of 64 bits.
std::optional<int64_t> least(const Expr& expr);

// A total order by structure; 0 for equal expressions.
int compare(const Expr& a, const Expr& b);

// The canonical form of any tree, with each symbol replaced by what `replace` returns for it.
ExprPtr substitute(const Expr& expr, const std::function<ExprPtr(const Expr& symbol)>& replace);
inline ExprPtr same_symbol(const Expr& symbol) { return dim_expr::symbol(symbol.name, symbol.least); }

}  // namespace opbridge::dim_expr
