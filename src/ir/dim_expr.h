// Constructors of canonical expressions. Results are folded and ordered, so that expressions which the rules
// below prove equal have the same structure. They throw Error(invalid_argument) for a division by zero and
// for integers beyond 64 bits.
//
// Sums and products are flat: like terms and factors are collected, and integer factors are distributed over
// sums. Fractions are reduced by common integers and factors. A symbol that divides itself is assumed to be
// nonzero, as PyTorch assumes of sizes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "opbridge/dim.h"

namespace opbridge::dim_expr {

ExprPtr integer(int64_t value);
ExprPtr symbol(std::string name, std::optional<int64_t> least, std::optional<int64_t> most = {});
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

// Whether the value is provably an integer for all integer values of the symbols.
bool is_integral(const Expr& expr);

// A lower bound that follows from the structure; nothing if there is none within 64 bits.
std::optional<int64_t> least(const Expr& expr);

// A total order by structure; 0 for equal expressions.
int compare(const Expr& a, const Expr& b);

// The canonical form of any tree, with each symbol replaced by `replace`'s result for it.
ExprPtr substitute(const Expr& expr, const std::function<ExprPtr(const Expr& symbol)>& replace);
inline ExprPtr same_symbol(const Expr& symbol) {
  return dim_expr::symbol(symbol.name, symbol.least, symbol.most);
}

}  // namespace opbridge::dim_expr
