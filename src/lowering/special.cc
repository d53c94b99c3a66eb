// Mathematical functions of two tensors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

// Of two values in one kernel type of floating point.
using Compute = Value (*)(GraphBuilder& g, Value a, Value b);

// The angle from the ratio of sizes, in [0, pi/2], then put into the right quadrant: minus zero counts as
// negative.
Value atan2(GraphBuilder& g, Value y, Value x) {
  Value height = g.op("Abs", y), width = g.op("Abs", x);
  Value ratio = g.op("Div", height, width);
  // 0/0 is 0 here, and infinity over infinity 1: of equal sizes neither is divided.
  Value equal_ratio = g.cast(g.op("Greater", height, g.scalar_like(x, 0)), x.element_type());
  ratio = g.op("Where", g.op("Equal", height, width), equal_ratio, ratio);
  Value angle = g.op("Atan", ratio);
  Value left = g.op("Sub", g.scalar_like(x, std::numbers::pi), angle);
  angle = g.op("Where", is_negative(g, x), left, angle);
  return g.op("Where", is_negative(g, y), g.op("Neg", angle), angle);
}

// In float64 the squares of float32 neither overflow nor vanish. Infinity wins over NaN.
Value hypot(GraphBuilder& g, Value a, Value b) {
  const ElementType type = a.element_type();
  a = g.op("Abs", g.cast(a, ElementType::float64));
  b = g.op("Abs", g.cast(b, ElementType::float64));
  Value length = g.op("Sqrt", g.op("Add", g.op("Mul", a, a), g.op("Mul", b, b)));
  Value infinity = g.scalar_like(a, INFINITY);
  Value infinite = g.op("Or", g.op("Equal", a, infinity), g.op("Equal", b, infinity));
  return g.cast(g.op("Where", infinite, infinity, length), type);
}

// log2(2^a + 2^b)
Value logaddexp2(GraphBuilder& g, Value a, Value b) {
  auto times = [&](Value value, double factor) { return g.op("Mul", value, g.scalar_like(value, factor)); };
  return times(logaddexp(g, times(a, std::numbers::ln2), times(b, std::numbers::ln2)), std::numbers::log2e);
}

// x * log, 0 where x is, unless the other is NaN.
Value times_log(GraphBuilder& g, Value x, Value log, Value other) {
  Value zero = g.scalar_like(x, 0);
  Value vanishes = g.op("And", g.op("Equal", x, zero), g.op("Not", g.op("IsNaN", other)));
  return g.op("Where", vanishes, zero, g.op("Mul", x, log));
}

Value xlogy(GraphBuilder& g, Value x, Value y) { return times_log(g, x, g.op("Log", y), y); }

Value xlog1py(GraphBuilder& g, Value x, Value y) { return times_log(g, x, log1p(g, y), y); }

Value ldexp(GraphBuilder& g, Value x, Value exponent) {
  return g.op("Mul", x, g.op("Pow", g.scalar_like(x, 2), exponent));
}

// Euclid's algorithm on all elements at once, as long as one of them has a remainder.
Value gcd(GraphBuilder& g, Value a, Value b) {
  const std::vector<Dim>& dims = *g.result().dims;
  a = g.expand(g.op("Abs", a), dims);
  b = g.expand(g.op("Abs", b), dims);
  auto any = [](GraphBuilder& on, Value x) {
    Value there = on.cast(on.op("Greater", x, on.scalar_like(x, 0)), ElementType::int32);
    // A zero beside it, for a tensor without elements.
    Value flat = on.concat(
        {on.reshape(there, {Dim(-1)}), on.constant(ir::Weight::of<int32_t>(std::array{0}, {1}))}, 0);
    flat.get()->type = ir::TensorType{ElementType::int32, std::vector<Dim>{Dim::symbol("flat")}};
    return on.cast(on.reduce("ReduceMax", flat, {0}, false), ElementType::boolean);
  };
  const ir::TensorType number{a.element_type(), dims};
  const ir::TensorType counter{ElementType::int64, std::vector<Dim>()},
      flag{ElementType::boolean, std::vector<Dim>()};
  ir::GraphPtr body =
      g.subgraph("gcd", {counter, flag, number, number}, [&](GraphBuilder& on, std::vector<Value> in) {
        Value done = on.op("Equal", in[3], on.scalar_like(in[3], 0));
        Value divisor = on.op("Where", done, on.scalar_like(in[3], 1), in[3]);
        Value rest = on.op("Where", done, in[3], on.op("Mod", in[2], divisor));
        rest.get()->type = number;
        return std::vector{any(on, rest), on.op("Where", done, in[2], in[3]), rest};
      });
  Value result = g.ops<2>("Loop", Value(), any(g, b), a, b, attr("body", body))[0];
  result.get()->type = number;
  return result;
}

Value cross(GraphBuilder& g, Value a, Value b, int64_t dim) {
  const auto rank = static_cast<int64_t>(g.result().dims->size());
  auto turned = [&](Value value, std::vector<int64_t> order) {
    return g.gather(value, g.ints(order), wrap_axis(dim, rank) - rank + value.rank());
  };
  Value left = g.op("Mul", turned(a, {1, 2, 0}), turned(b, {2, 0, 1}));
  return g.op("Sub", left, g.op("Mul", turned(a, {2, 0, 1}), turned(b, {1, 2, 0})));
}

}  // namespace

void register_special(SymbolicRegistry& registry) {
  auto on = add(registry);

  auto on_pair = [&](const std::string& line, Compute compute) {
    on(line, Since{12}, [compute](GraphBuilder& g, Value a, Value b) {
      const ElementType type = g.result().element_type;
      return g.cast(compute(g, operand(g, a, type), operand(g, b, type)), type);
    });
  };
  for (const auto& [name, compute] : {std::pair<const char*, Compute>{"atan2", atan2},
                                      {"arctan2", atan2},
                                      {"hypot", hypot},
                                      {"logaddexp", logaddexp},
                                      {"logaddexp2", logaddexp2},
                                      {"special_xlog1py", xlog1py}}) {
    on_pair(fmt::format("aten::{}(Tensor self, Tensor other) -> Tensor", name), compute);
  }
  on_pair("aten::gcd(Tensor self, Tensor other) -> Tensor", gcd);
  on("aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", Since{9},
     [](GraphBuilder& g, Value a, Value b, int64_t dim) {
       const ElementType type = g.result().element_type;
       return g.cast(cross(g, operand(g, a, type), operand(g, b, type), dim), type);
     });
  on("aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value a, Value b, std::optional<int64_t> dim) {
       const std::vector<Dim>& dims = *g.result().dims;
       const auto three = std::ranges::find_if(dims, [](const Dim& size) { return size.is(3); });
       if (!dim && three == dims.end()) g.refuse("no dim is of the constant size 3; pass dim");
       const ElementType type = g.result().element_type;
       return g.cast(cross(g, operand(g, a, type), operand(g, b, type), dim.value_or(three - dims.begin())),
                     type);
     });
  on_pair("aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor", ldexp);
  on_pair("aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", xlogy);
  on_pair("aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::special_xlogy(Tensor self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor", xlogy);
  on_pair("aten::special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor", xlog1py);
  on_pair("aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor", xlog1py);
}

}  // namespace opbridge::lowering
