#include "ir/dead_code.h"
#include "ir/rewrite_log.h"
#include "opbridge/convert.h"
#include "simplify/passes.h"

namespace opbridge {

void simplify(ir::Graph& graph) {
  ir::remove_dead_code(graph);
  ir::RewriteLog log(graph);
  const auto run = [&](auto& pass, const char* name) {
    if (pass(graph)) log.note(name);
  };
  run(simplification::fold_constants, "constant folding");
  run(simplification::remove_identities, "identities");
  run(simplification::canonicalize_transposes, "transposes");
  run(simplification::divide_by_reciprocals, "reciprocals");
  run(simplification::fold_batch_normalization, "batch normalization");
  run(simplification::fold_channel_scales, "channel scales");
  run(simplification::merge_common_subexpressions, "common subexpressions");
  ir::remove_dead_code(graph);
}

}  // namespace opbridge
