// Order statistics (quantiles, nanmedian, the mode) and histograms.
#include <fmt/format.h>

#include <cmath>

#include "lowering/add.h"
#include "lowering/formula.h"
#include "lowering/kernel.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

// The elements of an axis, moved to the end and sorted in ascending order, NaN last.
struct Rows {
  Value sorted, indices;
  Value numbers;  // int64: how many elements of each row are not NaN; the last dim is 1
  Value has_nan;  // bool, with the same shape
};

Rows sorted_rows(GraphBuilder& g, Value self, int64_t axis) {
  Rows rows;
  Value x = move_axis(g, self, axis, self.rank() - 1);
  const bool has_nans = is_floating_point(x.element_type());
  Value nan = has_nans ? g.op("IsNaN", x) : filled(g, x.dims(), false, ElementType::boolean);
  Value counted = has_nans ? g.op("Where", nan, g.scalar_like(x, INFINITY), x) : x;
  auto [values, indices] =
      g.ops<2>("TopK", counted, g.sizes({x.dim(-1)}), attr("axis", -1), attr("largest", 0));
  rows.sorted = values;
  rows.indices = indices;
  Value numbers = g.cast(g.op("Not", nan), ElementType::int64);
  rows.numbers = g.reduce("ReduceSum", numbers, {-1}, true);
  rows.has_nan = g.op("Less", rows.numbers, g.dim_of(x, -1));
  return rows;
}

// The elements at the int64 indices `indices` along the last dim.
Value at(GraphBuilder& g, Value rows, Value indices) {
  return g.op("GatherElements", rows, indices, attr("axis", -1));
}

Value quantile(GraphBuilder& g, Value self, Value q, std::optional<int64_t> dim,
               const std::string& interpolation, bool ignore_nan) {
  const ElementType type = g.result().element_type;
  Value x = operand(g, self, type);
  const int64_t rank = x.rank();
  if (!dim || rank == 0) x = flat(g, x);
  const int64_t axis = dim && rank > 0 ? wrap_axis(*dim, rank) : 0;
  const Rows rows = sorted_rows(g, x, axis);
  const bool single = q.rank() == 0;
  Value fraction = operand(g, single ? g.unsqueeze(q, {0}) : q, type);

  // Ranks of shape (…, number of q), in float64 as in PyTorch since 2.15.
  Value one = g.scalar(1, ElementType::int64), zero = g.scalar(0, ElementType::int64);
  Value last = g.op("Sub", rows.numbers, one);
  if (!ignore_nan) last = g.op("Sub", g.dim_of(x, axis), one);
  constexpr ElementType wide = ElementType::float64;
  Value rank_of = g.op("Mul", g.cast(fraction, wide), g.cast(g.op("Max", last, zero), wide));
  std::vector<Dim> dims = rows.sorted.dims();
  dims.back() = fraction.dim(0);
  if (!ignore_nan) rank_of = g.expand(rank_of, dims);
  auto element = [&](const char* rounding) {
    return at(g, rows.sorted, g.cast(g.op(rounding, rank_of), ElementType::int64));
  };
  Value result;
  if (interpolation == "nearest") {
    result = element("Round");
  } else if (interpolation == "lower") {
    result = element("Floor");
  } else if (interpolation == "higher") {
    result = element("Ceil");
  } else {
    Value below = element("Floor"), above = element("Ceil");
    const bool is_midpoint = interpolation == "midpoint";
    Value weight = is_midpoint ? g.scalar_like(x, 0.5)
                               : g.cast(g.op("Sub", rank_of, g.op("Floor", rank_of)), x.element_type());
    result = lerp(g, below, above, weight, is_midpoint ? std::optional(0.5) : std::nullopt);
  }
  Value undefined = ignore_nan ? g.op("Equal", rows.numbers, zero) : rows.has_nan;
  result = g.op("Where", undefined, g.scalar_like(x, NAN), result);
  result = move_axis(g, g.typed(result, dims), static_cast<int64_t>(dims.size()) - 1, 0);
  return g.cast(g.reshape(result, *g.result().dims), type);
}

// The lower of the two middle elements, without NaN.
std::array<Value, 2> nanmedian(GraphBuilder& g, Value self, int64_t dim) {
  const ElementType type = self.element_type();
  Value x = operand(g, self.rank() == 0 ? flat(g, self) : self, type);
  const Rows rows = sorted_rows(g, x, wrap_axis(dim, x.rank()));
  Value one = g.scalar(1, ElementType::int64), zero = g.scalar(0, ElementType::int64);
  Value before = g.op("Max", g.op("Sub", rows.numbers, one), zero);
  Value middle = g.op("Div", before, g.scalar(2, ElementType::int64));
  Value median = at(g, rows.sorted, middle);
  if (is_floating_point(type))
    median = g.op("Where", g.op("Equal", rows.numbers, zero), g.scalar_like(x, NAN), median);
  const std::vector<Dim>& dims = *g.result().dims;
  return {g.cast(g.reshape(median, dims), type), g.reshape(at(g, rows.indices, middle), dims)};
}

// For each of 0, 1, … count - 1, the sum of the weights of its occurrences in `indices` (1-d int64).
Value occurrences(GraphBuilder& g, Value indices, Value count, Value weights) {
  const std::vector<Dim> bins{g.result().dims->at(0)};
  if (g.opset() >= 16) {
    Value zeros = g.typed(g.op("Expand", g.scalar_like(weights, 0), g.unsqueeze(count, {0})), bins);
    return g.op("ScatterElements", zeros, indices, weights, attr("axis", 0), attr("reduction", "add"));
  }
  Value each = g.op("Range", g.scalar(0, ElementType::int64), count, g.scalar(1, ElementType::int64));
  g.typed(each, bins);
  Value in_bin = g.op("Equal", g.unsqueeze(each, {1}), g.unsqueeze(indices, {0}));
  Value counted = g.op("Where", in_bin, weights, g.scalar_like(weights, 0));
  return g.reduce("ReduceSum", counted, {1}, false);
}

Value bincount(GraphBuilder& g, Value self, std::optional<Value> weights, Dim minlength) {
  const ElementType type = g.result().element_type;
  // PyTorch does not check the weights of an empty input.
  if (self.dim(0).is(0)) return filled(g, std::vector{minlength}, 0, type);
  if (weights && weights->rank() != 1)
    g.refuse(
        "PyTorch accepts weights with more or fewer dims than the input only if there are no elements; give "
        "them one dim");
  Value indices = g.cast(self, ElementType::int64);
  Value greatest = g.reduce("ReduceMax", indices, {0}, false);
  Value needed = g.op("Add", greatest, g.scalar(1, ElementType::int64));
  Value weight = weights ? operand(g, *weights, type) : filled(g, indices.dims(), 1, type);
  return g.cast(occurrences(g, indices, g.op("Max", needed, g.size(minlength)), weight), type);
}

// A histogram with bins of equal width. Elements outside are ignored; the upper end belongs to the last bin.
Value histc(GraphBuilder& g, Value self, int64_t bins, Scalar min, Scalar max) {
  return in_opmath_type(g, flat(g, self), [&](Value x) {
    Value low = g.scalar_like(x, min), high = g.scalar_like(x, max);
    const Formula least(g, min), most(g, max);
    const bool are_known = least.constant() && most.constant();
    if (!are_known || least.constant() == most.constant()) {
      // The ends are equal: those of the elements instead.
      Value lowest = g.reduce("ReduceMin", x, {}, false), highest = g.reduce("ReduceMax", x, {}, false);
      Value same = g.op("Equal", lowest, highest), one = g.scalar_like(x, 1);
      lowest = g.op("Where", same, g.op("Sub", lowest, one), lowest);
      highest = g.op("Where", same, g.op("Add", highest, one), highest);
      Value are_equal = are_known ? Value() : Value(least == most);
      low = are_known ? lowest : g.op("Where", are_equal, lowest, low);
      high = are_known ? highest : g.op("Where", are_equal, highest, high);
    }
    Value scaled = g.op("Mul", g.op("Sub", x, low), g.scalar_like(x, bins));
    Value bin = g.cast(g.op("Div", scaled, g.op("Sub", high, low)), ElementType::int64);
    bin = g.op("Min", bin, g.scalar(bins - 1, ElementType::int64));
    Value inside = g.op("And", g.op("GreaterOrEqual", x, low), g.op("LessOrEqual", x, high));
    bin = g.op("Where", inside, bin, g.scalar(0, ElementType::int64));
    return occurrences(g, bin, g.scalar(bins, ElementType::int64), g.cast(inside, x.element_type()));
  });
}

std::array<Value, 2> mode(GraphBuilder& g, Value self, int64_t dim) {
  const ElementType type = self.element_type();
  Value x = kernel_operand(g, self.rank() == 0 ? flat(g, self) : self, type);
  x = move_axis(g, x, wrap_axis(dim, x.rank()), x.rank() - 1);
  auto [values, indices] = g.ops<2>("opbridge::mode", x);
  const std::vector<Dim> rows = first_dims(x.dims(), x.rank() - 1), &dims = *g.result().dims;
  g.typed(values, {x.element_type(), rows});
  g.typed(indices, {ElementType::int64, rows});
  return {g.cast(g.reshape(values, dims), type), g.reshape(indices, dims)};
}

using Range = std::optional<std::vector<double>>;

// The edges of `bins` bins along each coordinate of `points`, (N, D).
std::vector<Value> histogram_edges(GraphBuilder& g, Value points, const std::vector<int64_t>& bins,
                                   const Range& range) {
  const ElementType type = points.element_type();
  if (type != ElementType::float32 && type != ElementType::float64) {
    g.refuse("the edges are computed in float32 or float64 alone; convert the input");
  }
  Value limits;
  if (range) {
    const auto coordinates = static_cast<int64_t>(range->size() / 2);
    limits = g.cast(g.constant(ir::Weight::of(std::span<const double>(*range), {coordinates, 2})), type);
  }
  std::vector<Value> edges =
      g.op_list("opbridge::histogramdd_edges", bins.size(), {points, limits, attr("bins", bins)});
  for (size_t i = 0; i < bins.size(); ++i) g.typed(edges[i], {type, std::vector{Dim(bins[i]) + Dim(1)}});
  return edges;
}

// The histogram of `points` (N, D), followed by the edges.
std::vector<Value> histogram(GraphBuilder& g, Value points, std::optional<Value> weight,
                             std::vector<Value> edges, bool density) {
  const ElementType type = points.element_type();
  if (weight) weight = flat(g, g.cast(*weight, type));
  std::vector<Dim> dims;
  for (const Value& of_one : edges) dims.push_back(of_one.dim(0) - Dim(1));
  Value counts =
      kernel(g, "opbridge::histogramdd", {points, weight, edges, attr("density", density)}, {type, dims});
  edges.insert(edges.begin(), counts);
  return edges;
}

// The rows of the last dim as points (N, D).
Value points_of(GraphBuilder& g, Value self) {
  if (self.dim(-1).is(0)) g.refuse("points without coordinates have no histogram");
  return g.reshape(self, {element_count(first_dims(self.dims(), self.rank() - 1)), self.dim(-1)});
}

std::vector<Value> histogramdd(GraphBuilder& g, Value self, const std::vector<int64_t>& bins,
                               const Range& range, std::optional<Value> weight, bool density) {
  Value points = points_of(g, self);
  return histogram(g, points, weight, histogram_edges(g, points, bins, range), density);
}

}  // namespace

void register_statistics(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const bool ignore_nan : {false, true}) {
    const char* name = ignore_nan ? "nanquantile" : "quantile";
    on(fmt::format("aten::{}(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, "
                   "str interpolation=\"linear\") -> Tensor",
                   name),
       Since{9},
       [ignore_nan](GraphBuilder& g, Value self, Value q, std::optional<int64_t> dim, Ignored,
                    std::string interpolation) {
         return quantile(g, self, q, dim, interpolation, ignore_nan);
       });
    on(fmt::format("aten::{}.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, "
                   "str interpolation=\"linear\") -> Tensor",
                   name),
       Since{9},
       [ignore_nan](GraphBuilder& g, Value self, double q, std::optional<int64_t> dim, Ignored,
                    std::string interpolation) {
         return quantile(g, self, g.number(q), dim, interpolation, ignore_nan);
       });
  }
  on("aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     Since{9}, [](GraphBuilder& g, Value self, int64_t dim, Ignored) { return nanmedian(g, self, dim); });
  on("aten::nanmedian(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return nanmedian(g, elements_of_median(g, self), 0)[0]; });
  on("aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", Since{9}, bincount);
  on("aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", Since{9}, histc);
  on("aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Ignored) { return mode(g, self, dim); });
  on("aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, "
     "bool density=False) -> (Tensor hist, Tensor bin_edges)",
     Since{9},
     [](GraphBuilder& g, Value self, int64_t bins, Range range, std::optional<Value> weight, bool density) {
       return histogramdd(g, g.unsqueeze(flat(g, self), {1}), {bins}, range, weight, density);
     });
  on("aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> "
     "(Tensor hist, Tensor bin_edges)",
     Since{9}, [](GraphBuilder& g, Value self, Value bins, std::optional<Value> weight, bool density) {
       return histogram(g, g.unsqueeze(flat(g, self), {1}), weight, {bins}, density);
     });
  on("aten::histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, "
     "bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
     Since{9}, histogramdd);
  on("aten::_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, "
     "bool density=False) -> Tensor[]",
     Since{9}, [](GraphBuilder& g, Value self, std::vector<int64_t> bins, Range range, Ignored, Ignored) {
       return histogram_edges(g, points_of(g, self), bins, range);
     });
  on("aten::_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, "
     "bool density=False) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, std::vector<int64_t> bins, Range range, std::optional<Value> weight,
        bool density) { return histogramdd(g, self, bins, range, weight, density).front(); });
  on("aten::_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, "
     "bool density=False) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, std::vector<Value> bins, std::optional<Value> weight, bool density) {
       return histogram(g, points_of(g, self), weight, bins, density).front();
     });
  on("aten::histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, "
     "bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
     Since{9},
     [](GraphBuilder& g, Value self, int64_t bins, Range range, std::optional<Value> weight, bool density) {
       if (!self.dim(-1).is_static()) g.refuse("the size of the last dim is dynamic; make it constant");
       const auto coordinates = static_cast<size_t>(self.dim(-1).value());
       if (coordinates == 0) g.refuse("the last dim must have at least one coordinate");
       check_constant(g, self.dim(-1).value());
       return histogramdd(g, self, std::vector(coordinates, bins), range, weight, density);
     });
  on("aten::histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, "
     "Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
     Since{9},
     [](GraphBuilder& g, Value self, std::vector<Value> bins, Ignored, std::optional<Value> weight,
        bool density) { return histogram(g, points_of(g, self), weight, bins, density); });
}

}  // namespace opbridge::lowering
