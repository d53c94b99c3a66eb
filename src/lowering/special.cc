// Mathematical functions of two tensors.
#include <fmt/format.h>

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

// In float64 the squares of float32 neither overflow nor vanish.
Value hypot(GraphBuilder& g, Value a, Value b) {
  const ElementType type = a.element_type();
  a = g.cast(a, ElementType::float64);
  b = g.cast(b, ElementType::float64);
  return g.cast(g.op("Sqrt", g.op("Add", g.op("Mul", a, a), g.op("Mul", b, b))), type);
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
