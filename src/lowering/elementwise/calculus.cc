// Differences and integrals along a dim.
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/formula.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

struct Neighbours {
  Value later, earlier;
};

Neighbours neighbours(GraphBuilder& g, Value x, int64_t axis) {
  Neighbours result{g.slice(x, axis, 1, end_of_axis), g.slice(x, axis, 0, -1)};
  std::vector<Dim> dims = x.dims();
  if (!dims.at(axis).is(0)) dims.at(axis) = dims.at(axis) - Dim(1);
  for (Value value : {result.later, result.earlier}) g.typed(value, dims);
  return result;
}

Value differences(GraphBuilder& g, Value x, int64_t axis) {
  const Neighbours pair = neighbours(g, x, axis);
  return g.op("Sub", pair.later, pair.earlier);
}

Value diff(GraphBuilder& g, Value self, int64_t n, int64_t dim, std::optional<Value> prepend,
           std::optional<Value> append) {
  if (n < 0 || n > 1000) g.refuse("n must be in [0, 1000]");
  if (n == 0) return self;  // PyTorch ignores prepend and append here
  const ElementType type = g.result().element_type;
  const int64_t axis = wrap_axis(dim, self.rank());
  std::vector<Value> parts;
  for (const std::optional<Value>& part : {prepend, std::optional(self), append}) {
    if (part) parts.push_back(operand(g, *part, type));
  }
  Value x = g.concat(std::move(parts), axis);
  for (int64_t i = 0; i < n; ++i) {
    x = differences(g, x, axis);
    // For bools the difference is whether neighbours differ.
    if (type == ElementType::boolean) x = g.op("Abs", x);
  }
  return g.cast(x, type);
}

// Twice the areas between neighbours.
Value trapezoids(GraphBuilder& g, Value y, std::optional<Value> x, int64_t axis) {
  const Neighbours pair = neighbours(g, y, axis);
  Value heights = in_own_type(g, "Add", pair.later, pair.earlier);
  if (!x) return heights;
  const bool one_for_all = x->rank() == 1 && y.rank() != 1;
  // PyTorch counts the axis from the first dim even if the coordinates have more dims.
  if (!one_for_all && x->rank() < y.rank()) {
    std::vector<int64_t> leading(y.rank() - x->rank());
    std::iota(leading.begin(), leading.end(), 0);
    x = g.unsqueeze(*x, leading);
  }
  const Neighbours coordinates = neighbours(g, *x, one_for_all ? 0 : axis);
  Value widths = in_own_type(g, "Sub", coordinates.later, coordinates.earlier);
  if (one_for_all) {
    std::vector<Dim> dims(y.rank() - axis, Dim(1));
    dims[0] = widths.dim(0);
    widths = g.reshape(widths, dims);
  }
  return in_own_type(g, "Mul", heights, widths);
}

Value trapezoid(GraphBuilder& g, Value y, std::optional<Value> x, const Scalar& dx, int64_t dim,
                bool cumulative) {
  const ElementType type = g.result().element_type;
  const int64_t axis = wrap_axis(dim, y.rank());
  // PyTorch does not compare the sizes of `x` then.
  if (!cumulative && y.dim(axis).is(0)) return filled(g, *g.result().dims, 0, type);
  if (!x && !cumulative) {
    // As PyTorch does, subtract half of the two ends from the sum: the sum of integers may wrap around, and
    // infinite ends give NaN.
    Value first = g.slice(y, axis, 0, 1), last = g.slice(y, axis, -1, end_of_axis);
    Value ends = operand(g, in_own_type(g, "Add", first, last), type);
    const bool whole = is_integral(y.element_type());
    Value sum =
        sum_of(g, whole ? g.cast(y, ElementType::int64) : operand(g, y, type), std::vector{axis}, true);
    const ElementType wide = ends.element_type();
    if (may_be_empty(y.dim(axis))) ends = sum_of(g, ends, std::vector{axis}, true);  // 0 if there are none
    Value area = g.op("Sub", g.cast(sum, wide), g.op("Mul", ends, g.scalar(0.5, wide)));
    return g.reshape(g.cast(g.op("Mul", area, g.scalar(dx, wide)), type), *g.result().dims);
  }
  Value areas = trapezoids(g, y, x, axis);
  const auto scaled = [&](Value value, const Scalar& factor) {
    return g.op("Mul", operand(g, value, type), g.scalar_like(operand(g, value, type), factor));
  };
  const auto summed = [&](Value value) {
    return cumulative ? g.op("CumSum", value, g.scalar(axis, ElementType::int64))
                      : sum_of(g, value, std::vector{axis}, false);
  };
  if (!x) return g.cast(summed(scaled(areas, (Formula(g, dx) / 2).scalar())), type);
  // Integers are added as integers, which may wrap around.
  const bool whole = is_integral(areas.element_type()) || areas.element_type() == ElementType::boolean;
  return g.cast(scaled(summed(whole ? g.cast(areas, ElementType::int64) : operand(g, areas, type)), 0.5),
                type);
}

// The coordinates of the samples along an axis: `distance` apart, or given as a tensor.
struct Spacing {
  double distance = 1;
  std::optional<Value> coordinates;
};

// A term of a weighted sum of neighbours along an axis: the slice [begin, end) times a weight.
struct Term {
  int64_t begin, end;
  Value weight;
};

// The derivative of `self` along `axis`, in the element type of `x`: the slope of the parabola through three
// neighbours, and at both ends, if `edge_order` is 1, that of the line through two.
Value derivative(GraphBuilder& g, Value self, Value x, int64_t axis, const Spacing& spacing,
                 int64_t edge_order) {
  const auto weighted = [&](std::initializer_list<Term> terms) {
    Value sum;
    for (const Term& term : terms) {
      Value part = g.op("Mul", g.slice(x, axis, term.begin, term.end), g.cast(term.weight, x.element_type()));
      sum = sum ? g.op("Add", sum, part) : part;
    }
    return sum;
  };
  if (!spacing.coordinates) {
    // As in PyTorch, integers are subtracted as integers, which may wrap around.
    const auto difference = [&](int64_t later, int64_t later_end, int64_t earlier, int64_t earlier_end,
                                double intervals) {
      Value change = in_own_type(g, "Sub", g.slice(self, axis, later, later_end),
                                 g.slice(self, axis, earlier, earlier_end));
      return g.op("Div", g.cast(change, x.element_type()), g.scalar_like(x, intervals * spacing.distance));
    };
    Value inside = difference(2, end_of_axis, 0, -2, 2);
    if (edge_order == 1) {
      return g.concat({difference(1, 2, 0, 1, 1), inside, difference(-1, end_of_axis, -2, -1, 1)}, axis);
    }
    const auto term = [&](double factor, int64_t begin, int64_t end) {
      return g.op("Mul", g.slice(x, axis, begin, end), g.scalar_like(x, factor));
    };
    const auto twice = [&](int64_t begin, int64_t end) {
      Value part = g.slice(self, axis, begin, end);
      return g.cast(in_own_type(g, "Add", part, part), x.element_type());
    };
    const auto over_distance = [&](Value change) {
      return g.op("Div", change, g.scalar_like(x, spacing.distance));
    };
    Value first = g.op("Sub", g.op("Add", term(-1.5, 0, 1), twice(1, 2)), term(0.5, 2, 3));
    Value last = g.op("Add", g.op("Sub", term(0.5, -3, -2), twice(-2, -1)), term(1.5, -1, end_of_axis));
    return g.concat({over_distance(first), inside, over_distance(last)}, axis);
  }
  // The distances of neighbours, with trailing dims of size 1 to broadcast. Sums and products have the type
  // of the coordinates, in which integers may wrap around, as in PyTorch.
  const ElementType given = spacing.coordinates->element_type();
  const ElementType of_ratios = is_floating_point(given) ? opmath_type(given) : ElementType::float32;
  std::vector<int64_t> behind(x.rank() - axis - 1);
  std::iota(behind.begin(), behind.end(), 1);
  const Neighbours ends = neighbours(g, *spacing.coordinates, 0);
  Value steps = in_own_type(g, "Sub", ends.later, ends.earlier);
  const auto step = [&](int64_t begin, int64_t end) {
    return g.unsqueeze(g.slice(steps, 0, begin, end), behind);
  };
  const auto sum = [&](Value a, Value b) { return in_own_type(g, "Add", a, b); };
  const auto product = [&](Value a, Value b) { return in_own_type(g, "Mul", a, b); };
  const auto minus = [&](Value a, Value b) { return in_own_type(g, "Sub", a, b); };
  const auto negative = [&](Value a) { return minus(g.scalar(0, a.element_type()), a); };
  const auto ratio = [&](Value over, Value under) {
    return g.op("Div", g.cast(over, of_ratios), g.cast(under, of_ratios));
  };
  // The weights of three neighbours, at distances `a` and `b`, in the slope at the first, second or third.
  const auto slope = [&](Value a, Value b, int at, std::array<std::pair<int64_t, int64_t>, 3> of) {
    Value both = sum(a, b), first, second, third;
    if (at == 0) {
      Value real = g.cast(a, of_ratios);
      first =
          g.op("Neg", ratio(g.op("Add", g.op("Add", real, real), g.cast(b, of_ratios)), product(a, both)));
      second = ratio(both, product(a, b));
      third = ratio(negative(a), product(b, both));
    } else if (at == 1) {
      first = ratio(negative(b), product(a, both));
      second = ratio(minus(b, a), product(a, b));
      third = ratio(a, product(b, both));
    } else {
      first = ratio(b, product(a, both));
      second = ratio(negative(both), product(a, b));
      third = ratio(sum(sum(b, b), a), product(b, both));
    }
    return weighted({{of[0].first, of[0].second, first},
                     {of[1].first, of[1].second, second},
                     {of[2].first, of[2].second, third}});
  };
  Value inside = slope(step(0, -1), step(1, end_of_axis), 1, {{{0, -2}, {1, -1}, {2, end_of_axis}}});
  if (edge_order == 2) {
    return g.concat(
        {slope(step(0, 1), step(1, 2), 0, {{{0, 1}, {1, 2}, {2, 3}}}), inside,
         slope(step(-2, -1), step(-1, end_of_axis), 2, {{{-3, -2}, {-2, -1}, {-1, end_of_axis}}})},
        axis);
  }
  const auto slope_of_line = [&](Value later, Value earlier, Value distance) {
    return g.op("Div", g.cast(in_own_type(g, "Sub", later, earlier), x.element_type()),
                g.cast(distance, x.element_type()));
  };
  return g.concat({slope_of_line(g.slice(self, axis, 1, 2), g.slice(self, axis, 0, 1), step(0, 1)), inside,
                   slope_of_line(g.slice(self, axis, -1, end_of_axis), g.slice(self, axis, -2, -1),
                                 step(-1, end_of_axis))},
                  axis);
}

// All overloads of aten::gradient: (self, spacing, dim, edge_order), some without spacing. Spacing is one
// number for all dims, or a number or a tensor of coordinates for each. Without dims the gradient is along
// all dims.
std::vector<Value> gradient(const SymbolicCall& call) {
  using namespace symbolic_detail;
  GraphBuilder& g = call.g;
  const size_t dims_at = call.arguments.size() - 2;
  Value self = Decode<Value>::get(call, 0);
  std::vector<Spacing> spacings;
  if (dims_at == 2 && std::holds_alternative<std::vector<ir::Value*>>(*call.arguments[1])) {
    for (Value coordinates : decode_values(call, 1)) spacings.push_back({1, coordinates});
  } else if (dims_at == 2) {
    for (double distance : decode_doubles(call, 1).value_or(std::vector{1.0}))
      spacings.push_back({distance, std::nullopt});
  } else {
    spacings.emplace_back();
  }
  std::vector<int64_t> all(self.rank());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int64_t> dims = decode_ints(call, dims_at).value_or(all);

  const ElementType type = g.result().element_type;
  Value x = operand(g, self, type);
  const int64_t edge_order = Decode<int64_t>::get(call, dims_at + 1);
  std::vector<Value> results;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Spacing& spacing = spacings.size() == 1 ? spacings[0] : spacings.at(i);
    const int64_t axis = wrap_axis(dims[i], self.rank());
    results.push_back(g.cast(derivative(g, self, x, axis, spacing, edge_order), type));
  }
  return results;
}

}  // namespace

void register_calculus(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     Since{9}, diff);
  for (const char* name : {"trapezoid", "trapz", "cumulative_trapezoid"}) {
    const bool cumulative = std::string_view(name).starts_with("cumulative");
    const bool old = std::string_view(name) == "trapz";
    on(fmt::format("aten::{}.dx(Tensor y, *, {}, int dim=-1) -> Tensor", name,
                   old ? "float dx=1." : "Scalar dx=1"),
       Since{9}, [cumulative](GraphBuilder& g, Value y, Scalar dx, int64_t dim) {
         return trapezoid(g, y, std::nullopt, dx, dim, cumulative);
       });
    on(fmt::format("aten::{}.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", name), Since{9},
       [cumulative](GraphBuilder& g, Value y, Value x, int64_t dim) {
         return trapezoid(g, y, x, 1, dim, cumulative);
       });
  }
  for (const char* arguments :
       {"scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None", "array(Tensor self, *, int[] dim",
        "scalararray(Tensor self, *, Scalar spacing, int[] dim",
        "scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None",
        "scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim",
        "tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None",
        "tensorarray(Tensor self, *, Tensor[] spacing, int[] dim"}) {
    OperatorSchema schema =
        parse_schema(fmt::format("aten::gradient.{}, int edge_order=1) -> Tensor[]", arguments));
    registry.add(Symbolic{schema.key(), std::move(schema), Since{9}, Origin::bundled, gradient});
  }
}

}  // namespace opbridge::lowering
