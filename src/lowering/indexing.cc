#include <numeric>

#include "lowering/add.h"
#include "symbolic/shape_inference.h"

namespace opbridge::lowering {
namespace {

// The index tensors of x[...], with the axes they stand for; a bool mask stands for as many axes as it has.
struct AxisIndices {
  std::vector<int64_t> axes;
  std::vector<Value> indices;  // int64, one for each axis

  bool adjacent() const { return axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size()); }
};

AxisIndices axis_indices(GraphBuilder& g, const std::vector<std::optional<Value>>& given) {
  AxisIndices result;
  int64_t axis = 0;
  for (const std::optional<Value>& index : given) {
    if (!index) {
      ++axis;
      continue;
    }
    const bool is_mask =
        index->element_type() == ElementType::boolean || index->element_type() == ElementType::uint8;
    if (!is_mask) {
      result.axes.push_back(axis++);
      result.indices.push_back(g.cast(*index, ElementType::int64));
      continue;
    }
    Value places = g.op("NonZero", g.cast(*index, ElementType::boolean));  // (rank of the mask, count)
    // The count is only known when the model runs; PyTorch's own name for it stands in the result's dims.
    for (int64_t i = 0; i < index->rank(); ++i) {
      Value row = g.gather(places, g.scalar(i, ElementType::int64), 0);
      row.get()->type =
          ir::TensorType{ElementType::int64, std::vector<Dim>{Dim::symbol("nonzero:" + index->get()->name)}};
      result.axes.push_back(axis++);
      result.indices.push_back(row);
    }
  }
  return result;
}

Value index(GraphBuilder& g, Value self, std::vector<std::optional<Value>> given) {
  const AxisIndices where = axis_indices(g, given);
  if (where.axes.empty()) return self;
  if (where.axes.size() == 1) return g.gather(self, where.indices[0], where.axes[0]);

  std::vector<int64_t> order = where.axes;
  for (int64_t axis = 0; axis < self.rank(); ++axis) {
    if (std::ranges::find(where.axes, axis) == where.axes.end()) order.push_back(axis);
  }
  std::vector<Dim> dims;
  for (Value indices : where.indices) dims = broadcast_dims(dims, indices.dims());
  const bool masked = std::ranges::any_of(
      dims, [](const Dim& dim) { return !dim.is_static() && dim.str().starts_with("nonzero:"); });
  std::vector<Value> columns;
  for (Value indices : where.indices) {
    // Rows of one mask have equal lengths already.
    columns.push_back(g.unsqueeze(masked ? indices : g.expand(indices, dims), {-1}));
  }
  Value gathered = g.op("GatherND", g.transpose(self, order), g.concat(columns, -1));
  // Result of GatherND: the indices' dims, then the axes without index. Side by side they stand where the
  // first of them stood.
  const auto index_rank = static_cast<int64_t>(dims.size());
  const int64_t rank = index_rank + self.rank() - static_cast<int64_t>(where.axes.size());
  const int64_t position = where.adjacent() ? where.axes.front() : 0;
  std::vector<int64_t> permutation(rank);
  for (int64_t axis = 0; axis < rank; ++axis) {
    permutation[axis] = axis < position                ? axis + index_rank
                        : axis < position + index_rank ? axis - position
                                                       : axis;
  }
  gathered.get()->type = ir::TensorType{self.element_type(), std::nullopt};
  return g.transpose(gathered, std::move(permutation));
}

}  // namespace

void register_indexing(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
     "bool sparse=False) "
     "-> Tensor",
     Since{9}, [](GraphBuilder& g, Value weight, Value indices, Ignored, Ignored, Ignored) {
       return g.gather(weight, indices, 0);
     });
  on("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", Since{12}, index);
  on("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices) {
       if (self.rank() == 0) return self;
       return g.gather(self, indices.rank() == 0 ? g.unsqueeze(indices, {0}) : indices,
                       wrap_axis(dim, self.rank()));
     });
  on("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", Since{11},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Ignored) {
       if (self.rank() == 0 || indices.rank() == 0) {
         Value flat = g.reshape(self, {Dim(-1)});
         return g.reshape(g.op("GatherElements", flat, g.reshape(indices, {Dim(-1)}), attr("axis", 0)),
                          *g.result().dims);
       }
       return g.op("GatherElements", self, indices, attr("axis", wrap_axis(dim, self.rank())));
     });
}

}  // namespace opbridge::lowering
