// Reading by index, and helpers for indices.
#include "lowering/indexing/indexing.h"

#include "builder/shape_inference.h"
#include "lowering/add.h"
#include "lowering/nn/quantization.h"
#include "tensor/constants.h"

namespace opbridge::lowering {

bool is_mask(Value index) {
  return index.element_type() == ElementType::boolean || index.element_type() == ElementType::uint8;
}

Value nonzero_indices(GraphBuilder& g, Value mask) {
  // The count is known only when the model runs. It has a new symbol until the call's result names it.
  const Dim count = g.unknown_size("count");
  Value nonzero =
      g.typed(g.op("NonZero", g.cast(mask, ElementType::boolean)), std::vector{Dim(mask.rank()), count});
  Value rows = g.transpose(nonzero, {1, 0});
  g.bind_dims(rows);
  return rows;
}

int64_t Indices::position() const {
  return axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size()) ? axes.front() : 0;
}

Value Indices::columns(GraphBuilder& g) const {
  if (mask_indices) return mask_indices;
  std::vector<Value> columns;
  for (Value indices : of_axis) columns.push_back(g.unsqueeze(g.expand(indices, dims), {-1}));
  return g.concat(columns, -1);
}

std::vector<int64_t> Indices::axes_first(int64_t rank) const {
  std::vector<int64_t> order = axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) order.push_back(axis);
  }
  return order;
}

std::optional<size_t> only_index(const std::vector<std::optional<Value>>& given) {
  std::optional<size_t> found;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

Indices read_indices(GraphBuilder& g, Value& self, const std::vector<std::optional<Value>>& given) {
  Indices result;
  int64_t axis = 0;
  for (const std::optional<Value>& index : given) {
    if (!index) {
      ++axis;
      continue;
    }
    if (!is_mask(*index)) {
      result.axes.push_back(axis++);
      result.of_axis.push_back(g.cast(*index, ElementType::int64));
      continue;
    }
    Value mask = *index;
    if (mask.rank() == 0) {
      self = g.unsqueeze(self, {axis});
      mask = g.unsqueeze(mask, {0});
    }
    const bool alone = only_index(given).has_value();
    Value mask_indices = nonzero_indices(g, mask);
    if (alone) result.mask_indices = mask_indices;
    for (int64_t i = 0; i < mask.rank(); ++i) {
      result.axes.push_back(axis++);
      if (!alone) result.of_axis.push_back(g.gather(mask_indices, g.scalar(i, ElementType::int64), 1));
    }
    if (alone) result.dims = {mask_indices.dim(0)};
  }
  if (axis > self.rank()) g.refuse("more indices are given than the tensor has dims");
  for (Value indices : result.of_axis) result.dims = builder::broadcast_dims(result.dims, indices.dims());
  return result;
}

std::vector<std::optional<Value>> clamped_indices(GraphBuilder& g, Value self,
                                                  std::vector<std::optional<Value>> given) {
  for (size_t axis = 0; axis < given.size(); ++axis) {
    if (!given[axis] || is_mask(*given[axis])) continue;
    const Dim& size = self.dim(static_cast<int64_t>(axis));
    Value index = g.cast(*given[axis], ElementType::int64);
    given[axis] = g.op("Min", g.op("Max", index, g.size(Dim(0) - size)), g.size(size - Dim(1)));
  }
  return given;
}

Value from_start(GraphBuilder& g, Value index, const Dim& size) {
  if (g.opset() >= 11) return index;
  index = g.cast(index, ElementType::int64);
  Value negative = g.op("Less", index, g.scalar(0, ElementType::int64));
  return g.op("Where", negative, g.op("Add", index, g.size(size)), index);
}

namespace {

Value index(GraphBuilder& g, Value self, std::vector<std::optional<Value>> given) {
  // For an empty result PyTorch does not check the indices; ONNX requires valid ones.
  const auto& dims = g.result().dims;
  if (element_count(self).is(0) && dims && element_count(*dims).is(0))
    return filled(g, *dims, 0, self.element_type());
  if (const std::optional<size_t> axis = only_index(given)) {
    Value index = *given[*axis];
    const auto along = static_cast<int64_t>(*axis);
    if (!is_mask(index))
      return g.gather(self, from_start(g, g.cast(index, ElementType::int64), self.dim(along)), along);
    if (index.rank() == 1)
      return g.op("Compress", self, g.cast(index, ElementType::boolean), attr("axis", along));
  }
  const Indices where = read_indices(g, self, given);
  if (where.axes.empty()) return self;

  Value gathered = g.op("GatherND", g.transpose(self, where.axes_first(self.rank())), where.columns(g));
  // GatherND returns the dims of the indices first, then the axes without an index.
  const auto index_rank = static_cast<int64_t>(where.dims.size());
  const int64_t rank = index_rank + self.rank() - static_cast<int64_t>(where.axes.size());
  const int64_t position = where.position();
  std::vector<int64_t> permutation(rank);
  for (int64_t axis = 0; axis < rank; ++axis) {
    permutation[axis] = axis < position                ? axis + index_rank
                        : axis < position + index_rank ? axis - position
                                                       : axis;
  }
  g.typed(gathered, {self.element_type(), std::nullopt});
  return g.transpose(gathered, std::move(permutation));
}

// The elements of `self` where `mask` is true, after both are broadcast.
Value masked_select(GraphBuilder& g, Value self, Value mask) {
  const std::vector<Dim> dims = builder::broadcast_dims(self.dims(), mask.dims());
  self = flat(g, g.expand(self, dims));
  mask = flat(g, g.expand(mask, dims));
  return g.op("Compress", self, mask, attr("axis", 0));
}

Value gather_elements(GraphBuilder& g, Value self, int64_t dim, Value indices) {
  indices = g.cast(indices, ElementType::int64);
  if (self.rank() > 0 && self.rank() == indices.rank())
    return g.op("GatherElements", self, indices, attr("axis", wrap_axis(dim, self.rank())));
  if (element_count(indices).is(0)) return filled(g, *g.result().dims, 0, self.element_type());
  Value gathered = g.op("GatherElements", flat(g, self), flat(g, indices), attr("axis", 0));
  return g.reshape(gathered, *g.result().dims);
}

Value take_along_dim(GraphBuilder& g, Value self, Value indices, std::optional<int64_t> dim) {
  if (!dim) return gather_elements(g, flat(g, self), 0, flat(g, indices));
  const int64_t axis = wrap_axis(*dim, self.rank());
  std::vector<Dim> of_self = self.dims(), of_indices = indices.dims();
  of_self.at(axis) = of_indices.at(axis) = Dim(1);
  std::vector<Dim> dims = builder::broadcast_dims(of_self, of_indices);
  dims.at(axis) = self.dim(axis);
  self = g.expand(self, dims);
  dims.at(axis) = indices.dim(axis);
  // PyTorch wraps the indices around, even those out of range.
  indices = g.cast(indices, ElementType::int64);
  Value size = g.size(self.dim(axis));
  indices = floor_modulo(g, indices, g.op("Max", size, g.scalar(1, ElementType::int64)));
  return gather_elements(g, self, axis, g.expand(indices, dims));
}

Value nonzero(GraphBuilder& g, Value self) {
  if (self.rank() > 0) return nonzero_indices(g, self);
  // The result has no columns, and one row if the scalar is nonzero.
  Value count = g.unsqueeze(g.cast(g.cast(self, ElementType::boolean), ElementType::int64), {0});
  ir::Weight zero = tensor::scalar_weight(0, ElementType::int64);
  zero.dims = {1};
  return g.op("ConstantOfShape", g.concat({count, g.ints({0})}, 0), attr("value", std::move(zero)));
}

// The first `size` rows of nonzero, padded with rows of `fill`.
Value nonzero_static(GraphBuilder& g, Value self, Dim size, int64_t fill) {
  Value rest = filled(g, std::vector{size, Dim(self.rank())}, fill, ElementType::int64);
  if (self.rank() == 0) return rest;
  Value all = g.concat({nonzero(g, self), rest}, 0);
  return g.slice(all, 0, g.ints({0}), g.sizes({size}));
}

std::vector<Value> nonzero_columns(GraphBuilder& g, Value self) {
  if (self.rank() == 0) self = g.unsqueeze(self, {0});
  Value mask_indices = nonzero_indices(g, self);
  std::vector<Value> columns;
  for (int64_t i = 0; i < self.rank(); ++i)
    columns.push_back(g.gather(mask_indices, g.scalar(i, ElementType::int64), 1));
  return columns;
}

}  // namespace

void register_indexing(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
     "bool sparse=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value weight, Value indices, Ignored, Ignored, Ignored) {
       if (const std::optional<Value> rows = gather_quantized_rows(g, weight, indices)) return *rows;
       return g.gather(weight, indices, 0);
     });
  on("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", Since{9}, index);
  on("aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", Since{9}, index);
  on("aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, Value mask, std::vector<std::optional<Value>> given, Scalar fill) {
       const ElementType type = self.element_type();
       if (element_count(self).is(0)) return filled(g, *g.result().dims, fill, type);
       Value found = index(g, self, clamped_indices(g, self, std::move(given)));
       return g.op("Where", g.cast(mask, ElementType::boolean), found, g.scalar(fill, type));
     });
  on("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices) {
       if (self.rank() == 0) return self;
       return g.gather(self, indices.rank() == 0 ? g.unsqueeze(indices, {0}) : indices,
                       wrap_axis(dim, self.rank()));
     });
  on("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Ignored) {
       return gather_elements(g, self, dim, indices);
     });
  on("aten::take(Tensor self, Tensor index) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value indices) {
       return g.gather(flat(g, self), from_start(g, indices, element_count(self)), 0);
     });
  on("aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", Since{9}, take_along_dim);

  on("aten::masked_select(Tensor self, Tensor mask) -> Tensor", Since{9}, masked_select);
  on("aten::nonzero(Tensor self) -> Tensor", Since{9}, nonzero);
  on("aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", Since{9},
     nonzero_static);
  on("aten::argwhere(Tensor self) -> Tensor", Since{9}, nonzero);
  on("aten::nonzero_numpy(Tensor self) -> Tensor[]", Since{9}, nonzero_columns);
  on("aten::where(Tensor condition) -> Tensor[]", Since{9}, nonzero_columns);
}

}  // namespace opbridge::lowering
