// Reading diagonals, and making matrices of them.
#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

// Puts the last dim of `self` on the diagonal `offset` of matrices in the dims `dim1` and `dim2` of the
// result.
Value diag_embed(GraphBuilder& g, Value self, int64_t offset, int64_t dim1, int64_t dim2) {
  const ElementType type = self.element_type();
  const Dim size = self.dim(-1) + Dim(std::abs(offset));
  // The index of an element is its row above the main diagonal, and its column below.
  Value padded = self;
  if (offset != 0) {
    std::vector<Dim> pads(2 * self.rank(), Dim(0));
    pads.back() = Dim(std::abs(offset));
    padded = g.op("Pad", self, g.sizes(pads), g.scalar(0, type));
  }
  std::vector<Dim> dims = self.dims();
  dims.back() = size;
  g.typed(padded, dims);
  Value square = filled(g, std::vector{size, size}, 0, ElementType::int32);
  Value indices = g.cast(g.op("EyeLike", square, attr("k", offset)), ElementType::boolean);
  Value matrices = g.op("Where", indices, g.unsqueeze(padded, {offset >= 0 ? -1 : -2}), g.scalar(0, type));

  const int64_t rank = self.rank() + 1, rows = wrap_axis(dim1, rank), columns = wrap_axis(dim2, rank);
  std::vector<int64_t> permutation;
  for (int64_t axis = 0, next = 0; axis < rank; ++axis)
    permutation.push_back(axis == rows ? rank - 2 : axis == columns ? rank - 1 : next++);
  return g.transpose(matrices, std::move(permutation));
}

// The diagonal of a matrix: in the flattened matrix, its elements are columns + 1 apart.
Value diagonal(GraphBuilder& g, Value self, int64_t offset, const Dim& length) {
  const Dim &rows = self.dim(0), &columns = self.dim(1);
  const Dim first = offset >= 0 ? Dim(offset) : Dim(-offset) * columns, step = columns + Dim(1);
  return g.typed(g.op("Slice", g.reshape(self, {rows * columns}), g.sizes({first}),
                      g.sizes({first + length * step}), g.ints({0}), g.sizes({step})),
                 std::vector{length});
}

Value block_diagonal(GraphBuilder& g, std::vector<Value> blocks) {
  const ElementType type = g.result().element_type;
  const Dim width = g.result().dims->at(1);
  Dim left(0);
  for (Value& block : blocks) {
    while (block.rank() < 2) block = g.unsqueeze(block, {0});
    if (block.rank() > 2) g.refuse("takes tensors of at most 2 dims");
    const Dim right = left + block.dim(1);
    Value pads = g.sizes({Dim(0), left, Dim(0), width - right});
    block = g.op("Pad", g.cast(block, type), pads, g.scalar(0, type));
    left = right;
  }
  return g.concat(std::move(blocks), 0);
}

}  // namespace

void register_diagonal(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", Since{9}, diag_embed);
  on("aten::diag(Tensor self, int diagonal=0) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t offset) {
       if (self.rank() == 1) return diag_embed(g, self, offset, 0, 1);
       return diagonal(g, self, offset, g.result().dims->at(0));
     });
  on("aten::trace(Tensor self) -> Tensor", Since{9}, [](GraphBuilder& g, Value self) {
    return in_opmath_type(g, self, [&](Value x) {
      return sum_of(g, diagonal(g, x, 0, min(x.dim(0), x.dim(1))), std::vector<int64_t>{0}, false);
    });
  });
  on("aten::diagflat(Tensor self, int offset=0) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t offset) {
       return diag_embed(g, g.reshape(self, {element_count(self)}), offset, 0, 1);
     });
  on("aten::block_diag(Tensor[] tensors) -> Tensor", Since{9}, block_diagonal);
}

}  // namespace opbridge::lowering
