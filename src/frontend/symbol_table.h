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
  // The values that a symbol may have; empty where they have no bound.
  struct Range {
    std::optional<int64_t> least;
    std::optional<int64_t> most;
  };
  // By the name of a symbol, as the program's range constraints state them.
  using Ranges = std::unordered_map<std::string, Range>;
  explicit SymbolTable(Ranges ranges) : ranges_(std::move(ranges)) {}

  // Parses an expression that PyTorch wrote. If a Dim cannot express it (a size that depends on a float), it
  // becomes a new symbol, the same one for the same text. `text` must outlive the table.
  const Dim& read(std::string_view text);

  // Whether all symbols in `dim` are learned: tensors or scalars of the graph define them.
  bool known(const Dim& dim) const;
  void learn(const Dim& dim);

 private:
  Dim symbol(const std::string& name, std::optional<int64_t> least) const;

  Ranges ranges_;
  std::unordered_map<std::string_view, Dim> read_;
  std::unordered_set<const Expr*> learned_;  // whole expressions, to skip most lookups of single symbols
  std::unordered_set<std::string> known_;
  int named_ = 0;
};

}  // namespace opbridge
