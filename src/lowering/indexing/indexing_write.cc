// Writing by index: index_put, scatter and similar operators.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "builder/shape_inference.h"
#include "lowering/add.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

Attr reduction_attribute(GraphBuilder& g, Reduction reduction) {
  const int since = reduction == Reduction::add || reduction == Reduction::multiply ? 16 : 18;
  if (g.opset() < since)
    g.refuse(fmt::format("Scatter with a reduction needs opset {}; export with opset_version={} or later",
                         since, since));
  constexpr std::array names = {"none", "add", "mul", "max", "min"};
  return attr("reduction", names[static_cast<size_t>(reduction)]);
}

Value scatter(GraphBuilder& g, std::string_view op, Value data, Value indices, Value updates,
              Reduction reduction, std::optional<Attr> axis) {
  const ElementType type = data.element_type();
  indices = g.cast(indices, ElementType::int64);
  updates = g.cast(updates, type);
  std::vector<Operand> operands{data, indices, updates};
  if (axis) operands.emplace_back(*axis);
  if (reduction == Reduction::none) return g.op_list(op, 1, std::move(operands)).front();
  const ElementType wide = opmath_type(type);
  operands[0] = g.cast(data, wide);
  operands[2] = g.cast(updates, wide);
  operands.emplace_back(reduction_attribute(g, reduction));
  return g.cast(g.op_list(op, 1, std::move(operands)).front(), type);
}

}  // namespace

Value scatter_elements(GraphBuilder& g, Value data, Value indices, Value updates, int64_t axis,
                       Reduction reduction) {
  return scatter(g, "ScatterElements", data, indices, updates, reduction, attr("axis", axis));
}

Value scatter_nd(GraphBuilder& g, Value data, Value indices, Value updates, Reduction reduction) {
  return scatter(g, "ScatterND", data, indices, updates, reduction, std::nullopt);
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = static_cast<int64_t>(i);
  return result;
}

Value scatter_rows(GraphBuilder& g, Value self, int64_t axis, Value rows, Value src, Reduction reduction) {
  std::vector<Dim> shape = self.dims();
  shape.at(axis) = rows.dim(0);
  std::vector<int64_t> order{axis};
  for (int64_t i = 0; i < self.rank(); ++i) {
    if (i != axis) order.push_back(i);
  }
  Value written = scatter_nd(g, g.transpose(self, order), g.unsqueeze(rows, {-1}),
                             g.transpose(g.expand(src, shape), order), reduction);
  return g.transpose(written, inverse(order));
}

namespace {

// PyTorch drops leading axes of size 1 of what is written, where it has more axes than the written part.
Value without_leading_axes(GraphBuilder& g, Value values, int64_t rank) {
  if (values.rank() <= rank) return values;
  std::vector<int64_t> axes(values.rank() - rank);
  std::iota(axes.begin(), axes.end(), 0);
  return g.squeeze(values, axes);
}

// self[mask] = values as a Where, if `values` broadcasts along the masked elements. The dims of the mask
// begin at `axis`. Returns nothing if `values` has one entry for each true element.
std::optional<Value> put_where(GraphBuilder& g, Value self, Value mask, int64_t axis, Value values,
                               bool accumulate) {
  const int64_t behind = self.rank() - axis - mask.rank();  // axes after those of the mask
  values = without_leading_axes(g, values, axis + 1 + behind);
  const int64_t count_axis = values.rank() - behind - 1;
  if (count_axis >= 0) {
    if (!values.dim(count_axis).is(1)) return std::nullopt;
    std::vector<int64_t> axes(std::max<int64_t>(mask.rank() - 1, 0));
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = count_axis + static_cast<int64_t>(i);
    values = mask.rank() == 0 ? g.squeeze(values, {count_axis}) : g.unsqueeze(values, axes);
  }
  mask = g.cast(mask, ElementType::boolean);
  std::vector<int64_t> axes(behind);
  for (int64_t i = 0; i < behind; ++i) axes[i] = mask.rank() + i;
  mask = g.unsqueeze(mask, axes);
  const ElementType type = self.element_type();
  Value old = operand(g, self, type), made = operand(g, values, type);
  if (accumulate) made = g.op("Add", old, made);
  return g.cast(g.op("Where", mask, made, old), type);
}

Value index_put(GraphBuilder& g, Value self, std::vector<std::optional<Value>> given, Value values,
                bool accumulate) {
  if (element_count(self).is(0)) return self;
  const std::vector<Dim> original = self.dims();
  if (const std::optional<size_t> axis = only_index(given); axis && is_mask(*given[*axis])) {
    if (auto done = put_where(g, self, *given[*axis], static_cast<int64_t>(*axis), values, accumulate))
      return *done;
  }
  const Indices where = read_indices(g, self, given);
  if (where.axes.empty()) {
    values = without_leading_axes(g, g.cast(values, self.element_type()), self.rank());
    values = g.expand(values, original);
    return accumulate ? g.op("Add", self, values) : values;
  }
  // `values` has the dims of self[...]: those of the indices at `position` among the axes without an index.
  const std::vector<int64_t> order = where.axes_first(self.rank());
  const auto index_rank = static_cast<int64_t>(where.dims.size());
  const int64_t position = where.position();
  std::vector<Dim> shape;
  for (size_t i = where.axes.size(); i < order.size(); ++i) shape.push_back(self.dim(order[i]));
  shape.insert(shape.begin() + position, where.dims.begin(), where.dims.end());
  values = g.expand(without_leading_axes(g, values, static_cast<int64_t>(shape.size())), shape);
  std::vector<int64_t> indices_first;
  for (int64_t i = 0; i < index_rank; ++i) indices_first.push_back(position + i);
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
    if (i < position || i >= position + index_rank) indices_first.push_back(i);
  }
  Value written =
      scatter_nd(g, g.transpose(self, order), where.columns(g), g.transpose(values, indices_first),
                 accumulate ? Reduction::add : Reduction::none);
  return g.reshape(g.transpose(written, inverse(order)), original);
}

// The common part of index_add, index_copy and index_fill. `source` broadcasts to the written part. PyTorch
// does not check the indices if `self` is empty.
Value write_along(GraphBuilder& g, Value self, int64_t dim, Value indices, Value source,
                  Reduction reduction = Reduction::none) {
  if (element_count(self).is(0)) return self;
  if (indices.rank() == 0) indices = g.unsqueeze(indices, {0});
  if (self.rank() > 0) return scatter_rows(g, self, wrap_axis(dim, self.rank()), indices, source, reduction);
  source = source.rank() == 0 ? g.unsqueeze(source, {0}) : source;
  return g.squeeze(scatter_rows(g, g.unsqueeze(self, {0}), 0, indices, source, reduction), {0});
}

Value index_add(GraphBuilder& g, Value self, int64_t dim, Value indices, Value source, Scalar alpha) {
  if (!alpha.is_static() || alpha.to_double() != 1) {
    const ElementType wide = opmath_type(self.element_type());
    source = g.cast(g.op("Mul", g.cast(source, wide), g.scalar(alpha, wide)), self.element_type());
  }
  return write_along(g, self, dim, indices, source, Reduction::add);
}

// Slices `src` to the shape of the indices.
Value cut_to(GraphBuilder& g, Value src, Value indices) {
  for (int64_t axis = 0; axis < src.rank(); ++axis) {
    if (src.dim(axis) == indices.dim(axis)) continue;
    src = g.slice(src, axis, g.ints({0}), g.sizes({indices.dim(axis)}));
  }
  return src;
}

// The arguments of ScatterElements; scalars have become 1-d.
struct Scatter {
  Value self, indices, src;
  int64_t axis;
  std::vector<Dim> dims;  // of the result
};

Scatter read_scatter(GraphBuilder& g, Value self, int64_t dim, Value indices, Value src) {
  Scatter result{self, g.cast(indices, ElementType::int64), src, wrap_axis(dim, self.rank()), self.dims()};
  if (self.rank() == 0) result.self = g.unsqueeze(self, {0});
  if (indices.rank() == 0) result.indices = g.unsqueeze(result.indices, {0});
  if (src.rank() == 0) result.src = g.unsqueeze(src, {0});
  result.src = cut_to(g, result.src, result.indices);
  return result;
}

Value scatter(GraphBuilder& g, Value self, int64_t dim, Value indices, Value src, Reduction reduction) {
  if (element_count(indices).is(0)) return self;
  const Scatter s = read_scatter(g, self, dim, indices, src);
  return g.reshape(scatter_elements(g, s.self, s.indices, s.src, s.axis, reduction), s.dims);
}

Value scatter_number(GraphBuilder& g, Value self, int64_t dim, Value indices, const Scalar& value,
                     Reduction reduction) {
  return scatter(g, self, dim, indices, filled(g, indices.dims(), value, self.element_type()), reduction);
}

Reduction named_reduction(GraphBuilder& g, std::string_view name) {
  if (name == "add" || name == "sum" || name == "mean") return Reduction::add;
  if (name == "multiply" || name == "prod") return Reduction::multiply;
  if (name == "amax") return Reduction::max;
  if (name == "amin") return Reduction::min;
  g.refuse(fmt::format("reduce='{}' is not known", name));
}

// The neutral element of a reduction.
Value neutral(GraphBuilder& g, Reduction reduction, ElementType type) {
  if (reduction == Reduction::add) return g.scalar(0, type);
  if (reduction == Reduction::multiply) return g.scalar(1, type);
  return g.scalar(reduction == Reduction::max ? lowest_value(type) : highest_value(type), type);
}

// Elements without updates keep their values; the others take part in the reduction if `include_self`.
Value scatter_reduce(GraphBuilder& g, const Scatter& s, const std::string& name, bool include_self) {
  const Reduction reduction = named_reduction(g, name);
  const ElementType type = s.self.element_type(), wide = opmath_type(type);
  Value self = g.cast(s.self, wide), src = g.cast(s.src, wide);
  const auto written_with = [&](Value data, Value value, Reduction how) {
    return scatter_elements(g, data, s.indices, g.expand(value, s.indices.dims()), s.axis, how);
  };
  Value start = self;
  if (!include_self) start = written_with(self, neutral(g, reduction, wide), Reduction::none);
  Value result = scatter_elements(g, start, s.indices, src, s.axis, reduction);
  if (name == "mean") {
    result = g.cast(g.cast(result, type), wide);  // as PyTorch's sum, which wraps around
    Value count = filled(g, s.self.dims(), 1, wide);
    if (!include_self) count = written_with(count, g.scalar(0, wide), Reduction::none);
    count = written_with(count, g.scalar(1, wide), Reduction::add);
    if (is_integral(type)) result = g.op("Sub", result, g.op("Mod", result, count));  // rounds down
    result = g.op("Div", result, count);
  } else if (is_floating_point(wide) && (reduction == Reduction::max || reduction == Reduction::min)) {
    // In PyTorch the result is NaN if any element is; ONNX does not specify this.
    Value nans = g.cast(g.op("IsNaN", self), ElementType::int32);
    if (!include_self) nans = written_with(nans, g.scalar(0, ElementType::int32), Reduction::none);
    nans = scatter_elements(g, nans, s.indices, g.cast(g.op("IsNaN", src), ElementType::int32), s.axis,
                            Reduction::max);
    result = g.op("Where", g.cast(nans, ElementType::boolean), g.scalar(std::nan(""), wide), result);
  }
  return g.reshape(g.cast(result, type), s.dims);
}

// Expands the 1-d indices of index_reduce, index_add, … to those of scatter.
Scatter along(GraphBuilder& g, Value self, int64_t dim, Value indices, Value source) {
  const int64_t axis = wrap_axis(dim, self.rank());
  const std::vector<int64_t> others = axes_except(axis, source.rank());
  if (indices.rank() == 0) indices = g.unsqueeze(indices, {0});
  Scatter result{self, g.cast(indices, ElementType::int64), source, axis, self.dims()};
  if (source.rank() == 0) result.src = g.unsqueeze(source, {0});
  if (self.rank() == 0) result.self = g.unsqueeze(self, {0});
  if (!others.empty()) result.indices = g.expand(g.unsqueeze(result.indices, others), source.dims());
  return result;
}

// Writes the elements of `source`, in order, to the elements where `mask` is true.
Value masked_scatter(GraphBuilder& g, Value self, Value mask, Value source) {
  const std::vector<Dim> dims = builder::broadcast_dims(self.dims(), mask.dims());
  self = g.expand(self, dims);
  Value mask_indices = nonzero_indices(g, flat(g, g.expand(mask, dims)));
  source = g.slice(flat(g, source), 0, g.ints({0}), g.sizes({mask_indices.dim(0)}));
  return g.reshape(scatter_nd(g, flat(g, self), mask_indices, source), dims);
}

}  // namespace

void register_indexing_write(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Given = std::vector<std::optional<Value>>;

  for (const char* name : {"index_put", "_unsafe_index_put"}) {
    on(fmt::format("aten::{}(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
                   name),
       Since{9}, index_put);
  }
  on("aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, "
     "bool unsafe=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Given given, Value values, bool accumulate, Ignored) {
       return index_put(g, self, std::move(given), values, accumulate);
     });
  on("aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, "
     "Tensor values) -> Tensor",
     Since{16}, [](GraphBuilder& g, Value self, Value mask, Given given, Value values) {
       if (element_count(self).is(0)) return self;
       Value counted = g.op("Where", g.cast(mask, ElementType::boolean), values, g.scalar_like(values, 0));
       return index_put(g, self, clamped_indices(g, self, std::move(given)), counted, true);
     });
  on("aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
     Since{16}, index_add);
  on("aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Value source) {
       return write_along(g, self, dim, indices, source);
     });
  for (const char* line :
       {"aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, int64_t dim, Value indices, Value value) {
      return write_along(g, self, dim, indices, value);
    });
  }
  on("aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
     "bool include_self=True) -> Tensor",
     Since{16},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Value source, std::string reduce,
        bool include_self) {
       return scatter_reduce(g, along(g, self, dim, indices, source), reduce, include_self);
     });

  on("aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Value src) {
       return scatter(g, self, dim, indices, src, Reduction::none);
     });
  on("aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Scalar value) {
       return scatter_number(g, self, dim, indices, value, Reduction::none);
     });
  on("aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
     Since{16}, [](GraphBuilder& g, Value self, int64_t dim, Value indices, Value src, std::string reduce) {
       return scatter(g, self, dim, indices, src, named_reduction(g, reduce));
     });
  on("aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
     Since{16},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Scalar value, std::string reduce) {
       return scatter_number(g, self, dim, indices, value, named_reduction(g, reduce));
     });
  on("aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", Since{16},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Value src) {
       return scatter(g, self, dim, indices, src, Reduction::add);
     });
  on("aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, "
     "bool include_self=True) -> Tensor",
     Since{16},
     [](GraphBuilder& g, Value self, int64_t dim, Value indices, Value src, std::string reduce,
        bool include_self) {
       if (element_count(indices).is(0)) return self;
       return scatter_reduce(g, read_scatter(g, self, dim, indices, src), reduce, include_self);
     });

  on("aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", Since{9}, masked_scatter);
  on("aten::masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value input, Value mask) {
       return masked_scatter(g, filled(g, input.dims(), 0, grad.element_type()), mask, grad);
     });
  on("aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value indices, Value source, bool accumulate) {
       Value at = from_start(g, flat(g, indices), element_count(self));
       Value written = scatter_elements(g, flat(g, self), at, flat(g, source), 0,
                                        accumulate ? Reduction::add : Reduction::none);
       return g.reshape(written, self.dims());
     });
}

}  // namespace opbridge::lowering
