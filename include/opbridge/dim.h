// A dimension of a tensor: an integer, or an integer expression over named symbols.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opbridge {

// An immutable integer expression. Operators of two or more operands (`add`, `mul`, `min`, `max`) hold them
// all; `floor_div`, `mod`, `pow` and `true_div` hold exactly two. Division and modulo round towards minus
// infinity, as in Python.
struct Expr {
  enum class Kind : uint8_t {
    integer,
    symbol,
    add,
    mul,
    floor_div,
    mod,
    min,
    max,
    pow,
    true_div,
    floor,
    ceil
  };

  Kind kind;
  int64_t value = 0;                  // of an integer
  std::string name;                   // of a symbol; two symbols with one name are the same
  std::optional<int64_t> least = {};  // lower bound of a symbol; empty if unknown
  std::optional<int64_t> most = {};   // upper bound of a symbol; empty if there is none
  std::vector<std::shared_ptr<const Expr>> operands;
};

using ExprPtr = std::shared_ptr<const Expr>;

class Dim {
 public:
  Dim() = default;
  Dim(int64_t value) : value_(value) {}  // NOLINT: a Dim is an integer in the common case
  explicit Dim(ExprPtr expr);            // folds to an integer where the expression is one

  // Symbols with the same name are the same symbol and must have the same bounds.
  static Dim symbol(std::string name, std::optional<int64_t> least = 0);
  static Dim symbol_between(std::string name, std::optional<int64_t> least, std::optional<int64_t> most);

  // Returns the Dim for a symbol of a parsed text. `least` is the lower bound that the text states, if any.
  using SymbolOf = std::function<Dim(const std::string& name, std::optional<int64_t> least)>;

  // Reads the forms in which PyTorch writes its sizes: `12`, `s77`, `2*s77 + 1`, `(s0//2)`, `Max(1, u0)`,
  // `Mod(s0, 2)`, and sympy's constructor form `Add(Symbol('s0', integer=True), Integer(1))`. Throws
  // Error(invalid_file) for text that it cannot read.
  static Dim parse(std::string_view text, const SymbolOf& symbol_of = &Dim::symbol);

  bool is_static() const { return expr_ == nullptr; }
  int64_t value() const;  // throws Error(internal) unless is_static()
  bool is(int64_t value) const { return is_static() && value_ == value; }
  const ExprPtr& expr() const { return expr_; }  // null where static

  // The canonical text. Expressions with the same structure have the same text.
  std::string str() const;

  // A lower bound that follows from the structure and the lower bounds of the symbols; empty if none does.
  std::optional<int64_t> least() const;

  // The value for the given values of the symbols.
  int64_t evaluate(const std::function<int64_t(const std::string&)>& value_of_symbol) const;

  // The names of all symbols, each once, in order of appearance.
  std::vector<std::string> symbols() const;

  friend bool operator==(const Dim& a, const Dim& b);

 private:
  int64_t value_ = 0;
  ExprPtr expr_;
};

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim floor_div(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);

}  // namespace opbridge
