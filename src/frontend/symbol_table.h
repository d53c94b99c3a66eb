#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "opbridge/dim.h"

namespace opbridge {

// The symbolic sizes of an exported program: their expressions, and the symbols that the graph has defined so
// far.
class SymbolTable {
 public:
  // The least value of each symbol, from the program's range constraints.
  using LeastValues = std::unordered_map<std::string, std::optional<int64_t>>;
  explicit SymbolTable(LeastValues least_values) : least_values_(std::move(least_values)) {}

  // Parses an expression that PyTorch wrote. If a Dim cannot express it (a size that depends on a float), it
  // becomes a new symbol, the same one for the same text. `text` must outlive the table.
  const Dim& read(std::string_view text);

  // Whether all symbols in `dim` are learned: tensors or scalars of the graph define them.
  bool known(const Dim& dim) const;
  void learn(const Dim& dim);

 private:
  Dim symbol(const std::string& name, std::optional<int64_t> least) const;

  LeastValues least_values_;
  std::unordered_map<std::string_view, Dim> read_;
  std::unordered_set<const Expr*> learned_;  // whole expressions, to skip most lookups of single symbols
  std::unordered_set<std::string> known_;
  int named_ = 0;
};

}  // namespace opbridge
