// Joining and splitting under NumPy's names (hstack, vsplit, …), combinations, and meshgrid.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

// torch.atleast_1d, 2d and 3d: adds leading dims of size 1; in 3d a vector lies along the middle dim.
Value at_least(GraphBuilder& g, Value self, int64_t rank) {
  if (self.rank() >= rank) return self;
  if (rank < 3 || self.rank() == 0) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < rank - self.rank(); ++axis) axes.push_back(axis);
    return g.unsqueeze(self, axes);
  }
  return self.rank() == 1 ? g.unsqueeze(self, {0, 2}) : g.unsqueeze(self, {2});
}

Value joined(GraphBuilder& g, std::vector<Value> tensors, int64_t axis) {
  for (Value& tensor : tensors) tensor = g.cast(tensor, g.result().element_type);
  return g.concat(std::move(tensors), axis);
}

Value stacked(GraphBuilder& g, std::vector<Value> tensors, int64_t rank, int64_t axis) {
  for (Value& tensor : tensors) tensor = at_least(g, tensor, rank);
  return joined(g, std::move(tensors), axis);
}

Value column_stack(GraphBuilder& g, std::vector<Value> tensors) {
  for (Value& tensor : tensors) {
    if (tensor.rank() < 2) tensor = g.reshape(tensor, {element_count(tensor), Dim(1)});
  }
  return joined(g, std::move(tensors), 1);
}

// Pads `axis` with `value` at both ends.
Value lengthened(GraphBuilder& g, Value tensor, int64_t axis, const Dim& before, const Dim& after,
                 double value) {
  if (before.is(0) && after.is(0)) return tensor;
  std::vector<Dim> pads(2 * tensor.rank(), Dim(0));
  pads.at(axis) = before;
  pads[tensor.rank() + axis] = after;
  return g.op("Pad", tensor, g.sizes(pads), g.scalar_like(tensor, value));
}

// Pads sequences of different lengths to one batch.
Value pad_sequence(GraphBuilder& g, std::vector<Value> sequences, bool batch_first, double value,
                   const std::string& side) {
  const int64_t batch = batch_first ? 0 : 1;
  const Dim length = g.result().dims->at(1 - batch);
  for (Value& sequence : sequences) {
    const Dim missing = length - sequence.dim(0), none = 0;
    const bool before = side == "left";
    sequence = g.cast(sequence, g.result().element_type);
    sequence = lengthened(g, sequence, 0, before ? missing : none, before ? none : missing, value);
    sequence = g.unsqueeze(sequence, {batch});
  }
  return g.concat(std::move(sequences), batch);
}

// Splits each tensor along `dim` into `chunks` parts, the last one padded with zeros, and joins the first
// parts of all tensors, then the second parts, …
Value chunks_joined(GraphBuilder& g, std::vector<Value> tensors, int64_t dim, int64_t chunks) {
  std::vector<Value> rows;
  for (Value tensor : tensors) {
    const int64_t axis = wrap_axis(dim, tensor.rank());
    const Dim length = floor_div(tensor.dim(axis) + Dim(chunks - 1), Dim(chunks));
    const Dim missing = length * Dim(chunks) - tensor.dim(axis);
    std::vector<Dim> dims = first_dims(tensor.dims(), axis);
    const Dim row = length * element_count(last_dims(tensor.dims(), tensor.rank() - axis - 1));
    dims.insert(dims.end(), {Dim(chunks), row});
    rows.push_back(g.reshape(lengthened(g, tensor, axis, 0, missing, 0), dims));
  }
  return joined(g, std::move(rows), -1);
}

// Splits along `dim` at the indices `indices`, which count from the end if they are negative.
std::vector<Value> cut_at(GraphBuilder& g, Value self, Value indices, int64_t dim) {
  dim = wrap_axis(dim, self.rank());
  if (indices.rank() == 0) g.refuse("the number of parts is data; pass it as a Python number");
  std::vector<Value> parts;
  Value begin = g.ints({0});
  for (size_t i = 0; i < g.result_count(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const bool last = i + 1 == g.result_count();
    Value end = last ? g.ints({end_of_axis}) : g.slice(indices, 0, index, index + 1);
    parts.push_back(g.slice(self, dim, begin, end));
    begin = end;
  }
  return parts;
}

Value cartesian_product(GraphBuilder& g, std::vector<Value> tensors) {
  if (tensors.size() == 1) return tensors[0];
  std::vector<Dim> grid;
  for (Value tensor : tensors) grid.push_back(tensor.dim(0));
  const auto rank = static_cast<int64_t>(grid.size());
  for (int64_t i = 0; i < rank; ++i) {
    std::vector<Dim> dims(rank, Dim(1));
    dims[i] = grid[i];
    Value column = g.expand(g.reshape(tensors[i], dims), grid);
    tensors[i] = g.reshape(column, {g.result().dims->at(0), Dim(1)});
  }
  return joined(g, std::move(tensors), 1);
}

// The number of combinations of `count` out of `size` elements.
double choice_count(int64_t size, int64_t count, bool repeated) {
  const auto largest = static_cast<double>(repeated ? size + count - 1 : size);
  double result = 1;
  for (int64_t i = 0; i < count && result > 0; ++i)
    result *= (largest - static_cast<double>(i)) / static_cast<double>(i + 1);
  return size > 0 ? std::max(result, 0.0) : 0;
}

// All combinations of `count` indices, each ascending, concatenated in lexicographic order.
std::vector<int64_t> choices(int64_t size, int64_t count, bool repeated) {
  const int64_t step = repeated ? 0 : 1;
  std::vector<int64_t> chosen(count), all;
  for (int64_t i = 0; i < count; ++i) chosen[i] = i * step;
  while (size > 0 && chosen.back() < size) {
    all.insert(all.end(), chosen.begin(), chosen.end());
    // Advance the last index that can advance, and set those after it to their least values.
    int64_t i = count - 1;
    while (i > 0 && chosen[i] + (count - 1 - i) * step + 1 >= size) --i;
    ++chosen[i];
    for (++i; i < count; ++i) chosen[i] = chosen[i - 1] + step;
  }
  return all;
}

// The same for a dynamic size. As PyTorch does, selects the ascending tuples from all tuples of indices.
Value choices_of_dynamic(GraphBuilder& g, const Dim& size, int64_t count, bool repeated) {
  Value all = arithmetic(g, 0, 1, size);
  if (count == 1) return g.unsqueeze(all, {1});
  const auto along = [&](int64_t axis) {
    std::vector<int64_t> behind(count - 1 - axis);
    std::iota(behind.begin(), behind.end(), 1);
    return behind.empty() ? all : g.unsqueeze(all, behind);
  };
  Value ascend;
  for (int64_t i = 1; i < count; ++i) {
    Value before = along(i - 1), next = along(i);
    Value follows = repeated ? g.op("Not", g.op("Less", next, before)) : g.op("Less", before, next);
    ascend = ascend ? g.op("And", ascend, follows) : follows;
  }
  return nonzero_indices(g, ascend);
}

Value combinations(GraphBuilder& g, Value self, int64_t count, bool with_replacement) {
  if (count < 0) g.refuse("the number of elements of a combination is negative");
  if (count == 0) return filled(g, *g.result().dims, 0, self.element_type());
  constexpr int64_t most_axes = 64;  // of the tensor of all tuples
  if (!self.dim(0).is_static() && count > most_axes)
    g.refuse(fmt::format("combinations of {} elements of a dynamic size; make it constant", count));
  if (!self.dim(0).is_static())
    return g.gather(self, choices_of_dynamic(g, self.dim(0), count, with_replacement), 0);
  const int64_t size = self.dim(0).value();
  check_constant(g, count);
  const double elements = choice_count(size, count, with_replacement) * static_cast<double>(count);
  check_constant(g, elements < 1e18 ? static_cast<int64_t>(elements) : std::numeric_limits<int64_t>::max());
  const std::vector<int64_t> all = choices(size, count, with_replacement);
  const auto rows = static_cast<int64_t>(all.size()) / count;
  return g.gather(self, g.constant(ir::Weight::of<int64_t>(all, {rows, count})), 0);
}

// The Kronecker product: each element of `self` times all of `other`.
Value kronecker(GraphBuilder& g, Value self, Value other) {
  const int64_t rank = std::max(self.rank(), other.rank());
  auto spread = [&](Value value, bool before) {
    std::vector<Dim> dims;
    for (int64_t axis = value.rank() - rank; axis < value.rank(); ++axis) {
      const Dim size = axis < 0 ? Dim(1) : value.dims().at(axis);
      dims.push_back(before ? size : Dim(1));
      dims.push_back(before ? Dim(1) : size);
    }
    return g.reshape(value, dims);
  };
  const ElementType type = g.result().element_type;
  Value left = spread(self, true), right = spread(other, false);
  Value product = type == ElementType::boolean ? g.op("And", g.cast(left, type), g.cast(right, type))
                                               : elementwise(g, "Mul", {left, right});
  return g.reshape(product, *g.result().dims);
}

// The slices of an axis between consecutive `bounds`, which may be out of order or out of range.
std::vector<Value> split_at(GraphBuilder& g, Value self, const std::vector<Dim>& bounds, int64_t dim) {
  const int64_t axis = wrap_axis(dim, self.rank());
  Dim sum(0);
  for (size_t i = 0; i < g.result_count(); ++i) sum = sum + g.result(i).dims->at(axis);
  if (sum == self.dim(axis)) return split_as_results(g, self, axis);
  std::vector<Value> parts;
  for (size_t i = 0; i <= bounds.size(); ++i) {
    Value begin = g.size(i == 0 ? Dim(0) : bounds[i - 1]);
    Value end = i == bounds.size() ? g.scalar(end_of_axis, ElementType::int64) : g.size(bounds[i]);
    parts.push_back(g.slice(self, axis, begin, end));
  }
  return parts;
}

// Expands each tensor along an axis of its own. 0-d tensors count as one element. "xy" swaps the first two
// axes.
std::vector<Value> meshgrid(GraphBuilder& g, std::vector<Value> tensors, std::string_view indexing) {
  const auto rank = static_cast<int64_t>(tensors.size());
  std::vector<Value> grids;
  for (int64_t i = 0; i < rank; ++i) {
    const bool swapped = indexing == "xy" && rank > 1 && i < 2;
    std::vector<Dim> column(rank, Dim(1));
    column[swapped ? 1 - i : i] = tensors[i].rank() == 0 ? Dim(1) : tensors[i].dim(0);
    grids.push_back(g.expand(g.reshape(tensors[i], column), *g.result(i).dims));
  }
  return grids;
}

}  // namespace

void register_stacking(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::meshgrid(Tensor[] tensors) -> Tensor[]", Since{9},
     [](GraphBuilder& g, std::vector<Value> tensors) { return meshgrid(g, std::move(tensors), "ij"); });
  on("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", Since{9},
     [](GraphBuilder& g, std::vector<Value> tensors, std::string indexing) {
       return meshgrid(g, std::move(tensors), indexing);
     });

  for (const int64_t rank : {1, 2, 3}) {
    on(fmt::format("aten::atleast_{}d(Tensor self) -> Tensor", rank), Since{9},
       [rank](GraphBuilder& g, Value self) { return at_least(g, self, rank); });
    on(fmt::format("aten::atleast_{}d.Sequence(Tensor[] tensors) -> Tensor[]", rank), Since{9},
       [rank](GraphBuilder& g, std::vector<Value> tensors) {
         for (Value& tensor : tensors) tensor = at_least(g, tensor, rank);
         return tensors;
       });
  }
  on("aten::hstack(Tensor[] tensors) -> Tensor", Since{9}, [](GraphBuilder& g, std::vector<Value> tensors) {
    return stacked(g, tensors, 1, tensors.at(0).rank() <= 1 ? 0 : 1);
  });
  for (const char* name : {"vstack", "row_stack"}) {
    on(fmt::format("aten::{}(Tensor[] tensors) -> Tensor", name), Since{9},
       [](GraphBuilder& g, std::vector<Value> tensors) { return stacked(g, std::move(tensors), 2, 0); });
  }
  on("aten::dstack(Tensor[] tensors) -> Tensor", Since{9},
     [](GraphBuilder& g, std::vector<Value> tensors) { return stacked(g, std::move(tensors), 3, 2); });
  on("aten::column_stack(Tensor[] tensors) -> Tensor", Since{9}, column_stack);

  for (const auto& [name, axis] : {std::pair{'v', 0}, {'h', 1}, {'d', 2}}) {
    const auto axis_of = [axis = axis](Value self) { return std::min<int64_t>(axis, self.rank() - 1); };
    on(fmt::format("aten::{}split.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", name), Since{9},
       [axis_of](GraphBuilder& g, Value self, Ignored) { return split_as_results(g, self, axis_of(self)); });
    on(fmt::format("aten::{}split.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", name), Since{9},
       [axis_of](GraphBuilder& g, Value self, std::vector<Dim> indices) {
         return split_at(g, self, indices, axis_of(self));
       });
  }
  on("aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]", Since{9},
     split_at);
  for (const char* line :
       {"aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        "aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        "aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"}) {
    on(line, Since{9},
       [](GraphBuilder& g, Value self, Ignored, int64_t dim) { return split_as_results(g, self, dim); });
  }

  on("aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]", Since{9},
     [](GraphBuilder& g, Value self, Ignored, int64_t dim) {
       // torch.export assumes the remainder of the example for every size.
       if (!self.dim(dim).is_static())
         g.refuse("the sizes of the parts depend on a dynamic size; split at indices instead");
       return split_as_results(g, self, dim);
     });
  on("aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, "
     "int dim=0) -> Tensor(a)[]",
     Since{9}, cut_at);
  on("aten::pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str "
     "padding_side=\"right\") -> Tensor",
     Since{9}, pad_sequence);
  on("aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", Since{9}, chunks_joined);

  on("aten::cartesian_prod(Tensor[] tensors) -> Tensor", Since{9}, cartesian_product);
  on("aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", Since{9},
     combinations);
  on("aten::kron(Tensor self, Tensor other) -> Tensor", Since{9}, kronecker);
}

}  // namespace opbridge::lowering
