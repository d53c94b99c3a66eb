// Records which rewrites made or changed the nodes of a graph, in Source::rewritten.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "opbridge/ir.h"

namespace opbridge::ir {

class RewriteLog {
 public:
  explicit RewriteLog(Graph& graph);

  // States that `rewrite` has run since the last call. A node does not count as changed if its inputs differ
  // only because nodes before it are gone.
  void note(std::string_view rewrite);

 private:
  Graph& graph_;
  std::unordered_map<const Node*, size_t> known_;
};

}  // namespace opbridge::ir
