// Views that select elements by their index in memory, and writes through views.
#include "lowering/layout/views.h"

#include <fmt/format.h>

#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

// The bounds of self[start:end:step] along an axis of `size`, clamped to [0, size]; nothing if they are known
// only when the model runs.
struct Range {
  Dim start, end;
};

std::optional<Range> read_range(const std::optional<Dim>& start, const std::optional<Dim>& end,
                                const Dim& size) {
  const auto read = [&](const std::optional<Dim>& given, const Dim& otherwise) -> std::optional<Dim> {
    if (!given || given->is(end_of_axis) || *given == size) return given ? size : otherwise;
    if (given->is(0)) return Dim(0);
    if (given->is_static() && size.is_static()) {
      const int64_t bound = given->value() < 0 ? given->value() + size.value() : given->value();
      return Dim(std::clamp<int64_t>(bound, 0, size.value()));
    }
    return std::nullopt;
  };
  const std::optional<Dim> from = read(start, Dim(0)), to = read(end, size);
  if (!from || !to) return std::nullopt;
  return Range{*from, *to};
}

}  // namespace

Value strided_slice(GraphBuilder& g, Value value, int64_t axis, Value start, Value end, const Dim& step) {
  if (step.is_static()) return g.slice(value, axis, start, end, step.value());
  if (g.opset() < 10) g.refuse("a step that is known only when the model runs needs opset 10");
  return g.op("Slice", value, start, end, g.ints({axis}), g.sizes({step}));
}

Value slice_scatter(GraphBuilder& g, Value self, Value src, int64_t dim, const std::optional<Dim>& start,
                    const std::optional<Dim>& end, const Dim& step) {
  const int64_t axis = wrap_axis(dim, self.rank());
  const Dim& size = self.dim(axis);
  const std::optional<Range> range = read_range(start, end, size);
  src = g.cast(src, self.element_type());
  if (!range || !step.is(1)) {
    // Slice the indices of the axis to get those that are written.
    Value all = arithmetic(g, 0, 1, size);
    Value rows = strided_slice(g, all, 0, g.sizes({start.value_or(Dim(0))}),
                               g.sizes({end.value_or(Dim(end_of_axis))}), step);
    const bool whole = src.rank() == self.rank() && !src.dim(axis).is(1);
    if (whole) {
      g.typed(rows, std::vector{src.dim(axis)});
    } else {
      g.bind_dims(rows);
    }
    return scatter_rows(g, self, axis, rows, src);
  }
  if (range->start.is_static() && range->end.is_static() && range->end.value() <= range->start.value())
    return self;
  std::vector<Dim> shape = self.dims();
  shape.at(axis) = range->end - range->start;
  std::vector<Value> parts;
  if (!range->start.is(0)) parts.push_back(g.slice(self, axis, g.ints({0}), g.sizes({range->start})));
  parts.push_back(g.expand(src, shape));
  if (!(range->end == size))
    parts.push_back(g.slice(self, axis, g.sizes({range->end}), g.ints({end_of_axis})));
  return g.typed(g.concat(std::move(parts), axis), self.type());
}

Value select_scatter(GraphBuilder& g, Value self, Value src, int64_t dim, const Dim& index) {
  const int64_t axis = wrap_axis(dim, self.rank());
  src = g.unsqueeze(src, {axis});
  if (!index.is_static()) return scatter_rows(g, self, axis, g.sizes({index}), src);
  const Dim end = index.is(-1) ? Dim(end_of_axis) : index + Dim(1);
  return slice_scatter(g, self, src, axis, index, end, 1);
}

namespace {

// A diagonal of two axes: the indices of its elements in the flattened axes.
struct Diagonal {
  std::vector<int64_t> order;  // moves the two axes to the end
  Value indices;
  std::vector<Dim> flattened;  // dims in that order, with the two axes flattened
};

Diagonal read_diagonal(GraphBuilder& g, Value self, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t one = wrap_axis(dim1, self.rank()), other = wrap_axis(dim2, self.rank());
  Diagonal result;
  for (int64_t i = 0; i < self.rank(); ++i) {
    if (i != one && i != other) {
      result.order.push_back(i);
      result.flattened.push_back(self.dim(i));
    }
  }
  result.order.insert(result.order.end(), {one, other});
  const Dim &rows = self.dim(one), &columns = self.dim(other);
  result.flattened.push_back(rows * columns);
  const Dim down(std::max<int64_t>(0, -offset)), right(std::max<int64_t>(0, offset));
  const Dim count = max(Dim(0), min(rows - down, columns - right));
  result.indices = arithmetic(g, down * columns + right, columns + Dim(1), count);
  return result;
}

Value diagonal(GraphBuilder& g, Value self, int64_t offset, int64_t dim1, int64_t dim2) {
  const Diagonal where = read_diagonal(g, self, offset, dim1, dim2);
  Value flattened = g.reshape(g.transpose(self, where.order), where.flattened);
  return g.gather(flattened, where.indices, static_cast<int64_t>(where.flattened.size()) - 1);
}

}  // namespace

Value diagonal_scatter(GraphBuilder& g, Value self, Value src, int64_t offset, int64_t dim1, int64_t dim2) {
  const Diagonal where = read_diagonal(g, self, offset, dim1, dim2);
  Value turned = g.transpose(self, where.order);
  const std::vector<Dim> dims = turned.dims();
  const auto last = static_cast<int64_t>(where.flattened.size()) - 1;
  Value written = scatter_rows(g, g.reshape(turned, where.flattened), last, where.indices, src);
  return g.transpose(g.reshape(written, dims), inverse(where.order));
}

namespace {

// The memory indices, in elements, of a view with these sizes and strides.
Value strided_indices(GraphBuilder& g, const std::vector<Dim>& size, const std::vector<Dim>& stride,
                      const std::optional<Dim>& offset) {
  if (size.size() != stride.size()) g.refuse("size and stride have different lengths");
  Value indices = g.size(offset.value_or(Dim(0)));
  for (size_t i = 0; i < size.size(); ++i) {
    Value of_axis = arithmetic(g, 0, stride[i], size[i]);
    std::vector<int64_t> behind(size.size() - i - 1);
    std::iota(behind.begin(), behind.end(), 1);
    indices = g.op("Add", indices, g.unsqueeze(of_axis, behind));
  }
  return indices;
}

// Swaps the last two axes, or with `all` reverses all axes.
Value turn(GraphBuilder& g, Value self, bool all) {
  std::vector<int64_t> order(self.rank());
  std::iota(order.begin(), order.end(), 0);
  if (all) {
    std::ranges::reverse(order);
  } else if (order.size() >= 2) {
    std::swap(order[order.size() - 2], order.back());
  }
  return g.transpose(self, order);
}

// All windows of `size` elements along `dim` at distances of `step`, as a new last axis.
Value unfold(GraphBuilder& g, Value self, int64_t dim, int64_t size, int64_t step) {
  if (self.rank() == 0) return g.slice(g.reshape(self, {Dim(1)}), 0, 0, size);
  const int64_t axis = wrap_axis(dim, self.rank());
  const Dim count = floor_div(self.dim(axis) - Dim(size), Dim(step)) + Dim(1);
  Value starts = g.unsqueeze(arithmetic(g, 0, step, count), {1});
  Value windows = g.gather(self, g.op("Add", starts, arithmetic(g, 0, 1, size)), axis);
  std::vector<int64_t> order;
  for (int64_t i = 0; i <= self.rank(); ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  order.push_back(axis + 1);
  return g.transpose(windows, order);
}

}  // namespace

void register_views(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Dims = std::vector<Dim>;
  using Ints = std::vector<int64_t>;
  using OptionalDim = std::optional<Dim>;

  on("aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
     "SymInt step=1) -> Tensor",
     Since{9}, slice_scatter);
  on("aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", Since{9},
     select_scatter);

  for (const char* line :
       {"aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
        "aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor"}) {
    on(line, Since{9}, diagonal);
  }
  on("aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)", Since{9},
     diagonal);
  on("aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     Since{9}, diagonal_scatter);

  for (const std::string name : {"movedim", "moveaxis"}) {
    on(fmt::format("aten::{}.int(Tensor(a) self, int source, int destination) -> Tensor(a)", name), Since{9},
       [](GraphBuilder& g, Value self, int64_t source, int64_t destination) {
         return move_axis(g, self, source, destination);
       });
    on(fmt::format("aten::{}.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", name),
       Since{9}, [](GraphBuilder& g, Value self, Ints source, Ints destination) {
         return move_axes(g, self, source, destination);
       });
  }
  on("aten::mT(Tensor(a) self) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self) { return turn(g, self, false); });
  on("aten::numpy_T(Tensor(a) self) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self) { return turn(g, self, true); });
  for (const char* name : {"mH", "matrix_H", "adjoint"}) {
    on(fmt::format("aten::{}(Tensor(a) self) -> Tensor(a)", name), Since{9},
       [](GraphBuilder& g, Value self) { return turn(g, self, false); });
  }

  for (const char* line : {"aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, "
                           "SymInt? storage_offset=None) -> Tensor(a)",
                           "aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, "
                           "SymInt? storage_offset=None) -> Tensor"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, Dims size, Dims stride, OptionalDim offset) {
      return g.gather(flat(g, self), strided_indices(g, size, stride, offset), 0);
    });
  }
  on("aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, "
     "SymInt? storage_offset=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value src, Dims size, Dims stride, OptionalDim offset) {
       Value indices = g.reshape(strided_indices(g, size, stride, offset), std::vector{element_count(src)});
       return g.reshape(scatter_elements(g, flat(g, self), indices, flat(g, src), 0), self.dims());
     });
  for (const char* line : {"aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
                           "aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor"}) {
    on(line, Since{9}, unfold);
  }
}

}  // namespace opbridge::lowering
