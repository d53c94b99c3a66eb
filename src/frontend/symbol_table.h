#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "opbridge/dim.h"

namespace opbridge {

// The symbolic sizes of one exported program: their expressions, and which symbols the graph has made so far.
class SymbolTable {
 public:
  // The least value of each symbol, as the program's range constraints have it.
  using LeastValues = std::unordered_map<std::string, std::optional<int64_t>>;
  explicit SymbolTable(LeastValues least_values) : least_values_(std::move(least_values)) {}

  // The expression that PyTorch wrote. What a Dim cannot express (a size that depends on a floating-point
  // number) becomes a symbol of its own, the same one for the same text; `text` must outlive the table.
  const Dim& read(std::string_view text);

  // Whether all symbols in `dim` are learned: the dims of a tensor or a number of the graph name them.
  bool known(const Dim& dim) const;
  void learn(const Dim& dim);

 private:
  Dim symbol(const std::string& name, std::optional<int64_t> least) const;

  LeastValues least_values_;
  std::unordered_map<std::string_view, Dim> read_;
  std::unordered_set<const Expr*> learned_;  // whole expressions, so that most need no second look
  std::unordered_set<std::string> known_;
  int named_ = 0;
};

}  // namespace opbridge
