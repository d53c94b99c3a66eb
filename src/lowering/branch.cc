#include "lowering/branch.h"

#include "ir/dim_expr.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

bool may_be_none_when_run(const Dim& count) {
  const auto from_zero = [](const Expr& symbol) {
    return dim_expr::symbol(symbol.name, symbol.least == 1 ? 0 : symbol.least, symbol.most);
  };
  return tensor::may_be_empty(Dim(dim_expr::substitute(*count.expr(), from_zero)));
}

}  // namespace

std::vector<Value> either(GraphBuilder& g, Value condition, size_t outputs, const Way& then,
                          const Way& otherwise) {
  const auto graph = [&](const char* name, const Way& make) {
    return attr(name,
                g.subgraph(name, {}, [&](GraphBuilder& b, const std::vector<Value>&) { return make(b); }));
  };
  return g.op_list("If", outputs, {condition, graph("then_branch", then), graph("else_branch", otherwise)});
}

std::vector<Value> unless_none(GraphBuilder& g, const Dim& count, size_t outputs, const Way& nothing,
                               const Way& some) {
  if (count.is(0)) return nothing(g);
  if (count.is_static() || !may_be_none_when_run(count)) return some(g);
  const Value is_none = g.op("Less", g.size(count), g.scalar(1, ElementType::int64));
  return either(g, is_none, outputs, nothing, some);
}

}  // namespace opbridge::lowering
