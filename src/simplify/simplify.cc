#include "ir/dead_code.h"
#include "opbridge/convert.h"
#include "simplify/passes.h"

namespace opbridge {

void simplify(ir::Graph& graph, int) {
  ir::remove_dead_code(graph);
  fold_constants(graph);
  remove_identities(graph);
  canonicalize_transposes(graph);
  divide_by_reciprocals(graph);
  fold_batch_normalization(graph);
  fold_channel_scales(graph);
  merge_common_subexpressions(graph);
  ir::remove_dead_code(graph);
}

}  // namespace opbridge
