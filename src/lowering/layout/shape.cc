#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/layout/views.h"

namespace opbridge::lowering {
namespace {

std::vector<int64_t> identity_permutation(int64_t rank) {
  std::vector<int64_t> permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  return permutation;
}

Value swap_axes(GraphBuilder& g, Value self, int64_t a, int64_t b) {
  if (self.rank() < 2) return self;
  std::vector<int64_t> permutation = identity_permutation(self.rank());
  std::swap(permutation[wrap_axis(a, self.rank())], permutation[wrap_axis(b, self.rank())]);
  return g.transpose(self, std::move(permutation));
}

// Reshapes to the dims of PyTorch's result.
Value to_result_shape(GraphBuilder& g, Value self) { return g.reshape(self, *g.result().dims); }

Value slice(GraphBuilder& g, Value self, int64_t dim, const std::optional<Dim>& start,
            const std::optional<Dim>& end, const Dim& step) {
  dim = wrap_axis(dim, self.rank());
  const bool from_start = !start || start->is(0);
  const bool to_end =
      !end || end->is(end_of_axis) || *end == self.dim(dim) ||
      (end->is_static() && self.dim(dim).is_static() && end->value() >= self.dim(dim).value());
  if (from_start && to_end && step.is(1)) return self;
  auto bound = [&](const std::optional<Dim>& given, int64_t otherwise) {
    const Dim dim_value = given.value_or(Dim(otherwise));
    return g.sizes({dim_value});
  };
  Value part = strided_slice(g, self, dim, bound(start, 0), bound(end, end_of_axis), step);
  return step.is_static() ? part : g.typed(part, *g.result().dims);
}

// narrow with a start that is data and may count from the end.
Value narrow(GraphBuilder& g, Value self, int64_t dim, Value start, Dim length) {
  const int64_t axis = wrap_axis(dim, self.rank());
  Value zero = g.scalar(0, ElementType::int64);
  start = g.reshape(g.cast(start, ElementType::int64), std::vector<Dim>());
  Value from_end = g.op("Add", start, g.dim_of(self, axis));
  start = g.op("Where", g.op("Less", start, zero), from_end, start);
  return g.gather(self, g.op("Add", start, arithmetic(g, 0, 1, length)), axis);
}

Value concatenate(GraphBuilder& g, std::vector<Value> tensors, int64_t dim) {
  // torch.cat skips empty 1-d tensors, whatever the rank of the others.
  if (!g.result().dims->empty() && g.result().rank() > 1) {
    std::erase_if(tensors, [](Value tensor) { return tensor.rank() == 1 && tensor.dim(0).is(0); });
  }
  for (Value& tensor : tensors) tensor = g.cast(tensor, g.result().element_type);
  return g.concat(std::move(tensors), wrap_axis(dim, static_cast<int64_t>(g.result().rank())));
}

Value stack(GraphBuilder& g, std::vector<Value> tensors, int64_t dim) {
  dim = wrap_axis(dim, static_cast<int64_t>(g.result().rank()));
  for (Value& tensor : tensors) tensor = g.unsqueeze(g.cast(tensor, g.result().element_type), {dim});
  return g.concat(std::move(tensors), dim);
}

Value repeat(GraphBuilder& g, Value self, const std::vector<Dim>& repeats) {
  if (std::ranges::any_of(repeats, [](const Dim& count) { return count.is_static() && count.value() < 0; })) {
    g.refuse("a count of repetitions is negative, which PyTorch accepts where the result has no elements");
  }
  std::vector<Dim> dims = self.dims();
  dims.insert(dims.begin(), repeats.size() - dims.size(), Dim(1));
  return repeats.empty() ? self : g.op("Tile", g.reshape(self, dims), g.sizes(repeats));
}

Value roll_axis(GraphBuilder& g, Value self, const Dim& shift, int64_t axis) {
  const Dim& size = self.dim(axis);
  if (size.is(0)) return self;
  const Dim start = mod(Dim(0) - shift, may_be_empty(size) ? max(size, 1) : size);
  if (start.is(0)) return self;
  Value cut = g.sizes({start});
  Value rolled = g.concat(
      {g.slice(self, axis, cut, g.ints({end_of_axis})), g.slice(self, axis, g.ints({0}), cut)}, axis);
  return g.typed(rolled, {self.dims().begin(), self.dims().end()});
}

Value roll(GraphBuilder& g, Value self, std::vector<Dim> shifts, std::vector<int64_t> dims) {
  if (self.rank() == 0) return self;
  if (dims.empty()) {
    return g.reshape(roll_axis(g, flat(g, self), shifts.at(0), 0), self.dims());
  }
  for (size_t i = 0; i < dims.size(); ++i)
    self = roll_axis(g, self, shifts.at(i), wrap_axis(dims[i], self.rank()));
  return self;
}

// The padding of torch.nn.functional.pad at both ends of an axis; negative amounts crop.
struct Padding {
  int64_t axis;
  Dim before, after;
};

// Moves the negative amounts out of `amounts` and returns them as positive ones.
Padding shortening_of(Padding& amounts) {
  auto cut = [](Dim& amount) {
    if (!amount.is_static() || amount.value() >= 0) return Dim(0);
    return Dim(0) - std::exchange(amount, Dim(0));
  };
  return {amounts.axis, cut(amounts.before), cut(amounts.after)};
}

Value shortened(GraphBuilder& g, Value self, const Padding& amounts) {
  const Dim start = amounts.before, end = self.dim(amounts.axis) - amounts.after;
  if (start.is(0) && end == self.dim(amounts.axis)) return self;
  std::vector<Dim> dims = self.dims();
  dims[amounts.axis] = end - start;
  return g.typed(g.slice(self, amounts.axis, g.sizes({start}), g.sizes({end})), std::move(dims));
}

// Circular padding. Pad has this mode from opset 19 on; slices express it at any opset.
Value wrapped_around(GraphBuilder& g, Value self, const Padding& amounts, bool is_shortened) {
  const int64_t axis = amounts.axis;
  const Dim size = self.dim(axis);
  // Of an axis that was shortened to less than the padding, PyTorch copies elements that it has just written.
  const Dim left = size - max(amounts.before, amounts.after);
  if (is_shortened && left.least().value_or(-1) < 0)
    g.refuse("negative amounts may shorten an axis to less than its circular padding");
  std::vector<Value> parts;
  if (!amounts.before.is(0))
    parts.push_back(g.slice(self, axis, g.sizes({size - amounts.before}), g.ints({end_of_axis})));
  parts.push_back(self);
  if (!amounts.after.is(0)) parts.push_back(g.slice(self, axis, g.ints({0}), g.sizes({amounts.after})));
  std::vector<Dim> dims = self.dims();
  dims.at(axis) = amounts.before + size + amounts.after;
  return g.typed(g.concat(std::move(parts), axis), std::move(dims));
}

// torch.nn.functional.pad: `pad` holds (before, after) from the last dim backwards.
Value pad(GraphBuilder& g, Value self, const std::vector<Dim>& pad, const std::string& mode,
          const Scalar& value) {
  const int64_t rank = self.rank();
  if (static_cast<int64_t>(pad.size()) > 2 * rank) g.refuse("pad lists more dims than the input has");
  std::vector<Dim> pads(2 * rank, Dim(0));
  std::vector<Padding> shortenings;
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    Padding amounts{rank - 1 - static_cast<int64_t>(i / 2), pad[i], pad[i + 1]};
    shortenings.push_back(shortening_of(amounts));
    if (mode == "circular") {
      Value rest = shortened(g, self, shortenings.back());
      self = wrapped_around(g, rest, amounts, !(rest.dim(amounts.axis) == self.dim(amounts.axis)));
    } else {
      pads.at(amounts.axis) = amounts.before;
      pads.at(rank + amounts.axis) = amounts.after;
    }
  }
  if (mode == "circular") return self;
  // Pad before cropping: elements that are cropped at one end may be padding at the other.
  if (std::ranges::any_of(pads, [](const Dim& amount) { return !amount.is(0); })) {
    const Value number = mode == "constant" ? g.scalar_like(self, value) : Value();
    self = g.op("Pad", self, g.sizes(pads), number, attr("mode", mode == "replicate" ? "edge" : mode));
  }
  for (const Padding& amounts : shortenings) self = shortened(g, self, amounts);
  return self;
}

}  // namespace

void register_shape(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Ints = std::vector<int64_t>;
  using Dims = std::vector<Dim>;

  for (const char* line : {"aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
                           "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
                           "aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor",
                           "aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, Ignored) { return to_result_shape(g, self); });
  }
  on("aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored) { return to_result_shape(g, self); });
  on("aten::_shape_as_tensor(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return g.op("Shape", self); });
  on("aten::_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return to_result_shape(g, self); });
  for (const char* line : {"aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
                           "aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, Ignored) { return to_result_shape(g, self); });
  }
  on("aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored) { return to_result_shape(g, self); });
  on("aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored) { return to_result_shape(g, self); });
  on("aten::flatten_dense_tensors(Tensor[] tensors) -> Tensor", Since{9},
     [](GraphBuilder& g, std::vector<Value> tensors) {
       for (Value& tensor : tensors) tensor = flat(g, g.cast(tensor, g.result().element_type));
       return g.concat(tensors, 0);
     });
  on("aten::unflatten_dense_tensors(Tensor flat, Tensor[] tensors) -> Tensor[]", Since{9},
     [](GraphBuilder& g, Value values, std::vector<Value> tensors) {
       std::vector<Dim> counts;
       for (Value tensor : tensors) counts.push_back(element_count(tensor));
       Dim rest = values.dim(0);
       for (const Dim& count : counts) rest = rest - count;
       if (!rest.is(0)) counts.push_back(rest);  // PyTorch ignores what follows
       std::vector<Value> parts = g.split(values, 0, counts);
       parts.resize(tensors.size());
       for (size_t i = 0; i < parts.size(); ++i) parts[i] = g.reshape(parts[i], tensors[i].dims());
       return parts;
     });
  on("aten::squeeze(Tensor(a) self) -> Tensor(a)", Since{9}, to_result_shape);
  on("aten::ravel(Tensor(a) self) -> Tensor(a)", Since{9}, to_result_shape);
  for (const char* line : {"aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
                           "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, Ignored) { return to_result_shape(g, self); });
  }
  on("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim) { return g.unsqueeze(self, {dim}); });

  on("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, Ints dims) { return g.transpose(self, wrap_axes(dims, self.rank())); });
  for (const char* line : {"aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                           "aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
                           "aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"}) {
    on(line, Since{9},
       [](GraphBuilder& g, Value self, int64_t a, int64_t b) { return swap_axes(g, self, a, b); });
  }
  on("aten::t(Tensor(a) self) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self) { return swap_axes(g, self, 0, -1); });

  on("aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored) { return g.expand(self, *g.result().dims); });
  on("aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return g.expand(self, *g.result().dims); });
  on("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Dims repeats) { return repeat(g, self, repeats); });
  on("aten::tile(Tensor self, SymInt[] dims) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Dims repeats) {
       const auto rank = static_cast<size_t>(self.rank());
       if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), Dim(1));
       return repeat(g, self, repeats);
     });
  on("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", Since{9},
     [](GraphBuilder& g, std::vector<Value> tensors) {
       for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = g.expand(tensors[i], *g.result(i).dims);
       return tensors;
     });
  on("aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return g.expand(self, *g.result().dims); });

  on("aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
     "Tensor(a)",
     Since{9}, slice);
  on("aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)", Since{9},
     narrow);
  on("aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Dim start, Dim length) {
       if (!start.is_static() && start.least().value_or(-1) < 0)
         return narrow(g, self, dim, g.size(start), length);
       if (start.is_static() && start.value() < 0) start = start + self.dim(dim);
       return slice(g, self, dim, start, start + length, 1);
     });
  on("aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Dim index) {
       dim = wrap_axis(dim, self.rank());
       if (index.is_static() && index.value() < 0 && g.opset() < 11) index = index + self.dim(dim);
       return g.gather(self, g.size(index), dim);
     });

  for (const char* name : {"cat", "concat", "concatenate"})
    on(fmt::format("aten::{}(Tensor[] tensors, int dim=0) -> Tensor", name), Since{9}, concatenate);
  for (const char* name : {"stack", "_stack"})
    on(fmt::format("aten::{}(Tensor[] tensors, int dim=0) -> Tensor", name), Since{9}, stack);

  for (const char* line :
       {"aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
        "aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
        "aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"}) {
    on(line, Since{9},
       [](GraphBuilder& g, Value self, Ignored, int64_t dim) { return split_as_results(g, self, dim); });
  }
  on("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim) {
       dim = wrap_axis(dim, self.rank());
       const std::vector<Dim> ones(g.result_count(), Dim(1));
       std::vector<Value> parts = g.split(self, dim, ones);
       for (Value& part : parts) part = g.squeeze(part, {dim});
       return parts;
     });

  on("aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", Since{9}, roll);
  on("aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Dims amounts, std::string mode, std::optional<double> value) {
       return pad(g, self, amounts, mode, value.value_or(0));
     });
  on("aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Dims amounts) { return pad(g, self, amounts, "circular", 0); });
  on("aten::_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Dims amounts, int64_t mode, std::optional<double> value) {
       constexpr const char* modes[] = {"reflect", "replicate", "circular", "constant"};
       if (mode < 0 || mode >= std::ssize(modes)) g.refuse("the mode does not exist in PyTorch");
       return pad(g, self, amounts, modes[mode], value.value_or(0));
     });
  for (int axes = 1; axes <= 3; ++axes) {
    for (const auto& [name, mode] :
         {std::pair{"reflection", "reflect"}, std::pair{"replication", "replicate"}}) {
      on(fmt::format("aten::{}_pad{}d(Tensor self, SymInt[{}] padding) -> Tensor", name, axes, 2 * axes),
         Since{9},
         [mode = mode](GraphBuilder& g, Value self, Dims amounts) { return pad(g, self, amounts, mode, 0); });
    }
  }
  on("aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Dims amounts, Scalar value) {
       return pad(g, self, amounts, "constant", value);
     });
}

}  // namespace opbridge::lowering
