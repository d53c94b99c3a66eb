#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/formula.h"
#include "lowering/kernel.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

Value count_value(GraphBuilder& g, Value self, const Axes& axes) {
  return g.cast(g.size(count_of(self, axes)), self.element_type());
}

Value sum(GraphBuilder& g, Value self, const Axes& axes, bool keepdim) {
  return in_opmath_type(g, self, [&](Value x) { return sum_of(g, x, axes, keepdim); });
}

Value product(GraphBuilder& g, Value self, const Axes& axes, bool keepdim) {
  return in_opmath_type(g, self, [&](Value x) { return product_of(g, x, axes, keepdim); });
}

// Unlike in sum(), PyTorch does not round the numbers to a half type before it adds them.
Value mean(GraphBuilder& g, Value self, const Axes& axes, bool keepdim) {
  const ElementType type = g.result().element_type;
  return g.cast(mean_of(g, g.cast(self, opmath_type(type)), axes, keepdim), type);
}

struct Moments {
  Value variance, mean;
};

// PyTorch computes float32 in float64. That matters if the root of the variance is taken, which `in_float64`
// says: squares of 1e30 and of 1e-30 are no numbers of float32.
Moments moments(GraphBuilder& g, Value self, const Axes& axes, const std::optional<Scalar>& correction,
                bool keepdim, bool in_float64) {
  const ElementType type = g.result().element_type;
  Value x = operand(g, self, type);
  const Formula correct(g, correction.value_or(1));
  Value mean = mean_of(g, x, axes, true);
  Value centered = g.op("Sub", x, mean);
  if (in_float64) centered = g.cast(centered, ElementType::float64);
  Value variance;
  const Dim count = count_of(x, axes);
  if (correct.constant() == 0) {
    variance = mean_of(g, g.op("Mul", centered, centered), axes, keepdim);
  } else {
    Value squares = g.reduce("ReduceSumSquare", centered, axes_of(axes, x), keepdim);
    Value zero = g.scalar_like(squares, 0), divisor;
    // The deviation of no elements is NaN, whatever the correction.
    if (count.is_static() && correct.constant()) {
      const auto number = static_cast<double>(count.value());
      divisor = g.scalar_like(squares, number == 0 ? 0 : std::max(0.0, number - *correct.constant()));
    } else {
      Value number = count_value(g, centered, axes);
      divisor = g.op("Max", g.op("Sub", number, g.scalar_like(squares, correct.scalar())), zero);
      if (!correct.constant() || *correct.constant() < 0)
        divisor = g.op("Where", g.op("Equal", number, zero), zero, divisor);
    }
    variance = g.op("Div", squares, divisor);
  }
  return {variance,
          keepdim ? mean : g.squeeze(mean, x.rank() == 0 ? std::vector<int64_t>() : axes_of(axes, x))};
}

// var, std, var_mean, std_mean.
struct MomentsOf {
  bool root, with_mean;

  std::vector<Value> operator()(GraphBuilder& g, Value self, const Axes& axes,
                                const std::optional<Scalar>& correction, bool keepdim) const {
    const ElementType type = g.result().element_type;
    const bool overflows = root && (type == ElementType::float32 || type == ElementType::bfloat16);
    auto [variance, mean] = moments(g, self, axes, correction, keepdim, overflows);
    std::vector<Value> results{g.cast(root ? g.op("Sqrt", variance) : variance, type)};
    if (with_mean) results.push_back(g.cast(mean, type));
    return results;
  }
};

Value extremum(GraphBuilder& g, bool greatest, Value self, const Axes& axes, bool keepdim) {
  return g.cast(Extremum(g, greatest, self).value(axes, keepdim), self.element_type());
}

std::array<Value, 2> extrema(GraphBuilder& g, Value self, const Axes& axes, bool keepdim) {
  return {extremum(g, false, self, axes, keepdim), extremum(g, true, self, axes, keepdim)};
}

Value index_of_extremum(GraphBuilder& g, bool greatest, Value self, std::optional<int64_t> dim,
                        bool keepdim) {
  if (dim) return Extremum(g, greatest, self).index(*dim, keepdim);
  Value index = Extremum(g, greatest, flat(g, self)).index(0, false);
  return g.reshape(index, *g.result().dims);
}

// Whether any or all elements are nonzero. Missing axes mean all axes; an empty list reduces nothing.
Value truth(GraphBuilder& g, bool all, Value self, const Axes& axes, bool keepdim) {
  Value x = g.cast(self, ElementType::boolean);
  if (!axes || !axes->empty())
    x = all ? g.op("Not", any_along(g, g.op("Not", x), axes, keepdim)) : any_along(g, x, axes, keepdim);
  return g.cast(x, g.result().element_type);
}

Value norm(GraphBuilder& g, Value self, const std::optional<Scalar>& order, const Axes& axes, bool keepdim) {
  return in_opmath_type(g, self,
                        [&](Value x) { return vector_norm(g, x, order.value_or(2), axes, keepdim); });
}

// The norm over all dims except `dim`, or over all if `dim` is -1.
Value norm_except_dim(GraphBuilder& g, Value v, int64_t order, int64_t dim) {
  if (dim == -1) return norm(g, v, order, {}, false);
  const int64_t kept = wrap_axis(dim, v.rank());
  if (v.rank() == 1) return norm(g, g.unsqueeze(v, {1}), order, std::vector<int64_t>{1}, false);
  return norm(g, v, order, axes_except(kept, v.rank()), true);
}

Value count_nonzero(GraphBuilder& g, Value self, const Axes& axes) {
  Value ones = g.cast(g.cast(self, ElementType::boolean), ElementType::int64);
  return g.reduce("ReduceSum", ones, axes_of(axes, self), false);
}

Value without_nan(GraphBuilder& g, Value self) {
  if (!is_floating_point(self.element_type())) return self;
  Value x = operand(g, self, self.element_type());
  return g.op("Where", g.op("IsNaN", x), g.scalar_like(x, 0), x);
}

Value nanmean(GraphBuilder& g, Value self, const Axes& axes, bool keepdim) {
  const ElementType type = g.result().element_type;
  Value x = operand(g, self, type);
  Value counted = g.cast(g.op("Not", g.op("IsNaN", x)), x.element_type());
  Value sum = g.reduce("ReduceSum", without_nan(g, x), axes_of(axes, x), keepdim);
  return g.cast(g.op("Div", sum, g.reduce("ReduceSum", counted, axes_of(axes, x), keepdim)), type);
}

// The sum over the axes along which the result would be broadcast to the shape of `self`.
Value sum_to_size(GraphBuilder& g, Value self, Ignored) {
  const std::vector<Dim>& dims = *g.result().dims;
  const int64_t added = self.rank() - static_cast<int64_t>(dims.size());
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < self.rank(); ++axis) {
    if (axis < added || (dims[axis - added].is(1) && !self.dim(axis).is(1))) axes.push_back(axis);
  }
  if (axes.empty()) return g.cast(self, g.result().element_type);
  return in_opmath_type(g, self, [&](Value x) { return g.reshape(sum_of(g, x, axes, true), dims); });
}

// Reduces segments of `data` along `axis`, given by their lengths or their offsets.
Value segment_reduce(GraphBuilder& g, Value data, std::string reduce, std::optional<Value> lengths,
                     std::optional<Value> indices, std::optional<Value> offsets, int64_t axis, Ignored,
                     std::optional<Scalar> initial) {
  if (indices) g.refuse("pass lengths or offsets; indices are not supported");
  Value bounds = segment_offsets(g, data, lengths, offsets, axis);
  return in_opmath_type(g, data, [&](Value x) {
    std::optional<Value> start;
    if (initial) start = g.scalar_like(x, *initial);
    return g.typed(segments_reduced(g, x, bounds, start, reduce), *g.result().dims);
  });
}

// The XOR of the bits of all elements as float64 or int64.
Value hash_tensor(GraphBuilder& g, Value self, std::vector<int64_t> axes, Ignored, int64_t mode) {
  if (mode != 0) g.refuse("the mode does not exist in PyTorch");
  std::vector<int64_t> reduced, order;
  if (self.rank() > 0) reduced = axes_of(axes, self);
  std::vector<Dim> dims;
  for (int64_t axis = 0; axis < self.rank(); ++axis) {
    if (std::ranges::find(reduced, axis) != reduced.end()) continue;
    order.push_back(axis);
    dims.push_back(self.dim(axis));
  }
  std::vector<Dim> rows = dims;
  rows.emplace_back(1);
  for (int64_t axis : reduced) {
    order.push_back(axis);
    rows.back() = rows.back() * self.dim(axis);
  }
  const bool floating = is_floating_point(self.element_type());
  Value x = g.cast(self, floating ? ElementType::float64 : ElementType::int64);
  x = g.reshape(self.rank() == 0 ? x : g.transpose(x, order), rows);
  return g.reshape(kernel(g, "opbridge::hash_tensor", {x}, {ElementType::uint64, dims}), *g.result().dims);
}

Value log_of_sum(GraphBuilder& g, Value x, const Axes& axes, bool keepdim) {
  return x.rank() == 0 ? x : g.reduce("ReduceLogSumExp", x, axes_of(axes, x), keepdim);
}

}  // namespace

void register_reduction(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor", Since{9}, sum_to_size);

  on("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return sum(g, self, {}, false); });
  on("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
     "Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Axes axes, bool keepdim, Ignored) {
       return sum(g, self, axes, keepdim);
     });
  on("aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Axes axes, bool keepdim, Ignored) {
       return sum(g, without_nan(g, self), axes, keepdim);
     });
  on("aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return mean(g, self, {}, false); });
  on("aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Axes axes, bool keepdim, Ignored) {
       return mean(g, self, axes, keepdim);
     });
  on("aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Axes axes, bool keepdim, Ignored) {
       return nanmean(g, self, axes, keepdim);
     });
  on("aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return product(g, self, {}, false); });
  on("aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, int64_t dim, bool keepdim, Ignored) {
       return product(g, self, std::vector{dim}, keepdim);
     });
  for (const char* name : {"logsumexp", "special_logsumexp"}) {
    on(fmt::format("aten::{}(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", name), Since{9},
       [](GraphBuilder& g, Value self, std::vector<int64_t> axes, bool keepdim) {
         return in_opmath_type(g, self, [&](Value x) { return log_of_sum(g, x, axes, keepdim); });
       });
  }

  for (const auto& [name, moments] : {std::pair{"var", MomentsOf{false, false}},
                                      {"std", MomentsOf{true, false}},
                                      {"var_mean", MomentsOf{false, true}},
                                      {"std_mean", MomentsOf{true, true}}}) {
    const char* returns = moments.with_mean ? "(Tensor, Tensor)" : "Tensor";
    on(fmt::format("aten::{}(Tensor self, bool unbiased=True) -> {}", name, returns), Since{9},
       [moments = moments](GraphBuilder& g, Value self, bool unbiased) {
         return moments(g, self, {}, unbiased ? 1 : 0, false);
       });
    on(fmt::format("aten::{}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> {}",
                   name, returns),
       Since{9}, [moments = moments](GraphBuilder& g, Value self, Axes axes, bool unbiased, bool keepdim) {
         return moments(g, self, axes, unbiased ? 1 : 0, keepdim);
       });
    on(fmt::format("aten::{}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
                   "bool keepdim=False) -> {}",
                   name, returns),
       Since{9},
       [moments = moments](GraphBuilder& g, Value self, Axes axes, std::optional<Scalar> correction,
                           bool keepdim) { return moments(g, self, axes, correction, keepdim); });
  }

  for (const bool greatest : {true, false}) {
    const char* name = greatest ? "max" : "min";
    on(fmt::format("aten::{}(Tensor self) -> Tensor", name), Since{9},
       [greatest](GraphBuilder& g, Value self) { return extremum(g, greatest, self, {}, false); });
    on(fmt::format("aten::a{}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", name), Since{9},
       [greatest](GraphBuilder& g, Value self, std::vector<int64_t> axes, bool keepdim) {
         return extremum(g, greatest, self, axes, keepdim);
       });
    on(fmt::format(
           "aten::{}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", name),
       Since{9}, [greatest](GraphBuilder& g, Value self, int64_t dim, bool keepdim) {
         Extremum found(g, greatest, self);
         return std::array{g.cast(found.value(std::vector{dim}, keepdim), self.element_type()),
                           found.index(dim, keepdim)};
       });
    on(fmt::format("aten::arg{}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", name), Since{9},
       [greatest](GraphBuilder& g, Value self, std::optional<int64_t> dim, bool keepdim) {
         return index_of_extremum(g, greatest, self, dim, keepdim);
       });
  }
  on("aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", Since{9},
     [](GraphBuilder& g, Value self, std::optional<int64_t> dim, bool keepdim) {
       return extrema(g, self, dim ? Axes(std::vector{*dim}) : std::nullopt, keepdim);
     });
  on("aten::_aminmax(Tensor self) -> (Tensor, Tensor)", Since{9},
     [](GraphBuilder& g, Value self) { return extrema(g, self, std::nullopt, false); });
  on("aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, bool keepdim) {
       return extrema(g, self, std::vector{dim}, keepdim);
     });

  for (const bool all : {true, false}) {
    const char* name = all ? "all" : "any";
    on(fmt::format("aten::{}(Tensor self) -> Tensor", name), Since{9},
       [all](GraphBuilder& g, Value self) { return truth(g, all, self, {}, false); });
    on(fmt::format("aten::_is_{}_true(Tensor self) -> Tensor", name), Since{9},
       [all](GraphBuilder& g, Value self) { return truth(g, all, self, {}, false); });
    on(fmt::format("aten::{}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", name), Since{9},
       [all](GraphBuilder& g, Value self, int64_t dim, bool keepdim) {
         return truth(g, all, self, std::vector{dim}, keepdim);
       });
    on(fmt::format("aten::{}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", name),
       Since{9}, [all](GraphBuilder& g, Value self, Axes axes, bool keepdim) {
         return truth(g, all, self, axes, keepdim);
       });
  }
  on("aten::count_nonzero(Tensor self, int? dim=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, std::optional<int64_t> dim) {
       return count_nonzero(g, self, dim ? Axes(std::vector{*dim}) : std::nullopt);
     });
  on("aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, std::vector<int64_t> axes) { return count_nonzero(g, self, axes); });

  on("aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Scalar order, Axes axes, bool keepdim, Ignored) {
       return norm(g, self, order, axes, keepdim);
     });
  // Unlike the norm, it is a sum of powers for the orders 0 and infinity too.
  on("aten::linalg__powsum(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Scalar order, Axes axes, bool keepdim, Ignored) {
       return in_opmath_type(g, self, [&](Value x) {
         return sum_of(g, g.op("Pow", g.op("Abs", x), g.scalar_like(x, order)), axes, keepdim);
       });
     });
  on("aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Scalar order) { return norm(g, self, order, {}, false); });
  on("aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, std::optional<Scalar> order, std::vector<int64_t> axes, bool keepdim) {
       return norm(g, self, order, axes, keepdim);
     });
  on("aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) "
     "-> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, std::optional<Scalar> order, std::vector<int64_t> axes, bool keepdim,
        Ignored) { return norm(g, self, order, axes, keepdim); });
  on("aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, std::optional<Scalar> order, Ignored) {
       return norm(g, self, order, {}, false);
     });
  on("aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, std::vector<int64_t> axes, bool keepdim) {
       return norm(g, self, Scalar(int64_t{2}), axes, keepdim);
     });
  on("aten::norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor", Since{9}, norm_except_dim);
  on("aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
     "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
     Since{9}, segment_reduce);
  on("aten::hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", Since{9},
     hash_tensor);
}

}  // namespace opbridge::lowering
