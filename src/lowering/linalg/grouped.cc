// Products of groups of rows, each with its own matrix, as in a mixture of experts.
#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

// input [rows, k], weight [groups, k, n]; ends [groups] are the row indices at which the groups end. Rows
// after the last group are zero. A loop over the groups multiplies each row by the matrix of its group only.
Value grouped_product(GraphBuilder& g, Value input, Value weight, Value ends) {
  const ElementType type = g.result().element_type;
  const Dim width = weight.dim(2);
  input = g.cast(input, type);
  weight = g.cast(weight, type);
  ends = g.cast(ends, ElementType::int64);
  Value none = g.scalar(0, type);
  const ir::TensorType number{ElementType::int64, std::vector<Dim>()},
      flag{ElementType::boolean, std::vector<Dim>()}, offset{ElementType::int64, std::vector<Dim>{Dim(1)}},
      rows{type, std::vector<Dim>{g.unknown_size("rows"), width}};
  auto next = [&](GraphBuilder& on, std::vector<Value> in) {
    Value end = on.unsqueeze(on.gather(ends, in[0], 0), {0});
    Value group = on.op("Slice", input, in[2], end, on.ints({0}));
    Value product = on.op("MatMul", group, on.gather(weight, in[0], 0));
    Value joined = on.op("Concat", in[3], product, attr("axis", 0));
    return std::vector{in[1], end, on.typed(joined, rows)};
  };
  ir::GraphPtr body = g.subgraph("group", {number, flag, offset, rows}, next);
  Value start = g.op("Expand", none, g.sizes({Dim(0), width}));
  const auto [last, product] =
      g.ops<2>("Loop", g.size(weight.dim(0)), Value(), g.ints({0}), start, attr("body", body));
  Value left = g.op("Sub", g.sizes({input.dim(0)}), last);
  Value padding = g.op("Expand", none, g.op("Concat", left, g.sizes({width}), attr("axis", 0)));
  return g.op("Concat", product, padding, attr("axis", 0));
}

}  // namespace

void register_grouped(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? "
     "out_dtype=None) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, Value mat2, std::optional<Value> offs, std::optional<Value> bias,
        std::optional<ElementType>) {
       if (bias) g.refuse("a bias is not supported by PyTorch either; add it to the result");
       const ElementType type = g.result().element_type;
       if (!offs) return g.op("MatMul", g.cast(self, type), g.cast(mat2, type));
       if (self.rank() != 2 || mat2.rank() != 3) {
         g.refuse("only groups of rows are supported; write one product for each group");
       }
       return grouped_product(g, self, mat2, *offs);
     });

  on("transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor", Since{9},
     grouped_product);
}

}  // namespace opbridge::lowering
