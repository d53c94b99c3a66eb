#include "lowering/complex/complex_functions.h"

#include <cmath>
#include <numbers>
#include <unordered_map>

#include "lowering/common.h"
#include "lowering/elementwise/special.h"

namespace opbridge::lowering {
namespace {

constexpr ElementType wide_type = ElementType::float64;

// Shorthands that make nodes in one graph. Intermediate results are float64, so that complex64 loses no
// digits to cancellation.
class Parts {
 public:
  explicit Parts(GraphBuilder& g) : g_(g) {}

  Value number(double value) const { return g_.scalar(value, wide_type); }
  Value wide(Value x) const { return g_.cast(x, wide_type); }
  Complex wide(Complex z) const {
    return {wide(z.re), z.im ? wide(z.im) : filled(g_, z.re.dims(), 0, wide_type)};
  }

  Value add(Value a, Value b) const { return g_.op("Add", a, b); }
  Value subtract(Value a, Value b) const { return g_.op("Sub", a, b); }
  Value times(Value a, Value b) const { return g_.op("Mul", a, b); }
  Value over(Value a, Value b) const { return g_.op("Div", a, b); }
  Value negative(Value a) const { return g_.op("Neg", a); }
  Value where(Value condition, Value a, Value b) const { return g_.op("Where", condition, a, b); }
  Value sqrt(Value x) const { return g_.op("Sqrt", x); }
  Value sin(Value x) const { return g_.op("Sin", x); }
  Value cos(Value x) const { return g_.op("Cos", x); }
  Value sinh(Value x) const { return g_.op("Sinh", x); }
  Value cosh(Value x) const { return g_.op("Cosh", x); }
  Value asinh(Value x) const { return g_.op("Asinh", x); }
  Value length(Complex z) const { return sqrt(add(times(z.re, z.re), times(z.im, z.im))); }
  Value angle(Complex z) const { return atan2(g_, z.im, z.re); }

  Complex negative(Complex z) const { return {negative(z.re), negative(z.im)}; }
  Complex times_i(Complex z) const { return {negative(z.im), z.re}; }
  Complex over_i(Complex z) const { return {z.im, negative(z.re)}; }
  Complex scaled(Complex z, double factor) const {
    return {times(z.re, number(factor)), times(z.im, number(factor))};
  }
  Complex plus(Complex z, double real) const { return {add(z.re, number(real)), z.im}; }
  Complex exp(Complex z) const {
    Value size = g_.op("Exp", z.re);
    return {times(size, cos(z.im)), times(size, sin(z.im))};
  }
  Complex log(Complex z) const { return {g_.op("Log", length(z)), angle(z)}; }
  // Computes the part that does not cancel first, and the other one from it.
  Complex sqrt(Complex z) const {
    Value t = sqrt(half_of(add(g_.op("Abs", z.re), length(z))));
    Value zero = number(0), is_zero = g_.op("Equal", t, zero);
    Value other = where(is_zero, zero, half_of(over(g_.op("Abs", z.im), where(is_zero, number(1), t))));
    Value right = g_.op("GreaterOrEqual", z.re, zero);
    Value im = where(right, other, t);
    return {where(right, t, other), where(is_negative(g_, z.im), negative(im), im)};
  }
  Complex tanh(Complex z) const {
    Value t = g_.op("Tanh", z.re), s = over(sin(z.im), cos(z.im));
    return divide(g_, {t, s}, {number(1), times(t, s)});
  }
  // Kahan 1987, "Branch cuts for complex elementary functions".
  Complex asin(Complex z) const {
    const Complex below = sqrt(plus(negative(z), 1)), above = sqrt(plus(z, 1));
    return {angle({multiply(g_, below, above).re, z.re}),
            asinh(subtract(times(below.re, above.im), times(below.im, above.re)))};
  }
  Complex acos(Complex z) const {
    const Complex below = sqrt(plus(negative(z), 1)), above = sqrt(plus(z, 1));
    return {times(number(2), angle({above.re, below.re})),
            asinh(subtract(times(above.re, below.im), times(above.im, below.re)))};
  }
  Complex acosh(Complex z) const {
    const Complex below = sqrt(plus(z, -1)), above = sqrt(plus(z, 1));
    return {asinh(add(times(below.re, above.re), times(below.im, above.im))),
            times(number(2), angle({above.re, below.im}))};
  }
  Complex atanh(Complex z) const {
    const Complex sum = log(plus(z, 1)), difference = log(plus(negative(z), 1));
    return scaled({subtract(sum.re, difference.re), subtract(sum.im, difference.im)}, 0.5);
  }

  Value half_of(Value x) const { return times(x, number(0.5)); }

 private:
  GraphBuilder& g_;
};

using Table = std::unordered_map<std::string_view, ComplexFunction>;

// Applies `compute` to the parts in float64.
template <auto compute>
Complex in_wide(GraphBuilder& g, Complex z) {
  const ElementType type = z.re.element_type();
  const Parts p(g);
  const Complex result = compute(g, p, p.wide(z));
  return {g.cast(result.re, type), result.im ? g.cast(result.im, type) : Value()};
}

constexpr auto sine = [](GraphBuilder&, const Parts& p, Complex z) {
  return Complex{p.times(p.sin(z.re), p.cosh(z.im)), p.times(p.cos(z.re), p.sinh(z.im))};
};
constexpr auto inverse = [](GraphBuilder& g, const Parts& p, Complex z) {
  return divide(g, {p.number(1), {}}, z);
};
constexpr auto sigmoid = [](GraphBuilder& g, const Parts& p, Complex z) {
  return inverse(g, p, p.plus(p.exp(p.negative(z)), 1));
};

const Table& table() {
  using G = GraphBuilder&;
  using P = const Parts&;
  static const Table functions = {
      {"aten::exp", in_wide<[](G, P p, Complex z) { return p.exp(z); }>},
      {"aten::exp2", in_wide<[](G, P p, Complex z) { return p.exp(p.scaled(z, std::numbers::ln2)); }>},
      {"aten::expm1", in_wide<[](G, P p, Complex z) { return p.plus(p.exp(z), -1); }>},
      {"aten::log", in_wide<[](G, P p, Complex z) { return p.log(z); }>},
      {"aten::log2", in_wide<[](G, P p, Complex z) { return p.scaled(p.log(z), std::numbers::log2e); }>},
      {"aten::log10", in_wide<[](G, P p, Complex z) { return p.scaled(p.log(z), std::numbers::log10e); }>},
      {"aten::log1p", in_wide<[](G, P p, Complex z) { return p.log(p.plus(z, 1)); }>},
      {"aten::sqrt", in_wide<[](G, P p, Complex z) { return p.sqrt(z); }>},
      {"aten::rsqrt", in_wide<[](G g, P p, Complex z) { return inverse(g, p, p.sqrt(z)); }>},
      {"aten::reciprocal", in_wide<inverse>},
      {"aten::square", in_wide<[](G g, P, Complex z) { return multiply(g, z, z); }>},
      {"aten::sin", in_wide<sine>},
      {"aten::cos", in_wide<[](G, P p, Complex z) {
         return Complex{p.times(p.cos(z.re), p.cosh(z.im)), p.negative(p.times(p.sin(z.re), p.sinh(z.im)))};
       }>},
      {"aten::tan", in_wide<[](G, P p, Complex z) { return p.over_i(p.tanh(p.times_i(z))); }>},
      {"aten::sinh", in_wide<[](G, P p, Complex z) {
         return Complex{p.times(p.sinh(z.re), p.cos(z.im)), p.times(p.cosh(z.re), p.sin(z.im))};
       }>},
      {"aten::cosh", in_wide<[](G, P p, Complex z) {
         return Complex{p.times(p.cosh(z.re), p.cos(z.im)), p.times(p.sinh(z.re), p.sin(z.im))};
       }>},
      {"aten::tanh", in_wide<[](G, P p, Complex z) { return p.tanh(z); }>},
      {"aten::asin", in_wide<[](G, P p, Complex z) { return p.asin(z); }>},
      {"aten::acos", in_wide<[](G, P p, Complex z) { return p.acos(z); }>},
      {"aten::atan", in_wide<[](G, P p, Complex z) { return p.over_i(p.atanh(p.times_i(z))); }>},
      {"aten::asinh", in_wide<[](G, P p, Complex z) { return p.over_i(p.asin(p.times_i(z))); }>},
      {"aten::acosh", in_wide<[](G, P p, Complex z) { return p.acosh(z); }>},
      {"aten::atanh", in_wide<[](G, P p, Complex z) { return p.atanh(z); }>},
      {"aten::sigmoid", in_wide<sigmoid>},
      {"aten::silu", in_wide<[](G g, P p, Complex z) { return multiply(g, z, sigmoid(g, p, z)); }>},
      {"aten::angle", in_wide<[](G, P p, Complex z) {
         return Complex{p.angle(z), {}};
       }>},
      {"aten::sgn", in_wide<[](G g, P p, Complex z) {
         Value length = p.length(z), zero = g.op("Equal", length, p.number(0));
         Value divisor = p.where(zero, p.number(1), length);
         return Complex{p.over(z.re, divisor), p.over(z.im, divisor)};
       }>},
      {"aten::sinc", in_wide<[](G g, P p, Complex z) {
         const Complex turned = p.scaled(z, std::numbers::pi);
         const Complex ratio = divide(g, sine(g, p, turned), turned);
         Value zero = g.op("Equal", p.length(z), p.number(0));
         return Complex{p.where(zero, p.number(1), ratio.re), p.where(zero, p.number(0), ratio.im)};
       }>},
  };
  return functions;
}

}  // namespace

Complex add(GraphBuilder& g, Complex a, Complex b) {
  Value re = g.op("Add", a.re, b.re);
  if (a.im && b.im) return {re, g.op("Add", a.im, b.im)};
  Value im = a.im ? a.im : b.im;  // the only imaginary part; it may have fewer elements than the sum
  return {re, im ? g.expand(im, re.dims()) : im};
}

Complex negative(GraphBuilder& g, Complex z) {
  return {g.op("Neg", z.re), z.im ? g.op("Neg", z.im) : Value()};
}

Complex multiply(GraphBuilder& g, Complex a, Complex b) {
  if (!b.im) std::swap(a, b);
  if (!b.im) return {g.op("Mul", a.re, b.re), {}};
  if (!a.im) return {g.op("Mul", a.re, b.re), g.op("Mul", a.re, b.im)};
  return {g.op("Sub", g.op("Mul", a.re, b.re), g.op("Mul", a.im, b.im)),
          g.op("Add", g.op("Mul", a.re, b.im), g.op("Mul", a.im, b.re))};
}

// Divides by the larger part of the divisor first, so that no square overflows. If the divisor is 0, divides
// part by part as PyTorch does, whatever the signs of the zeros.
Complex divide(GraphBuilder& g, Complex a, Complex b) {
  auto quotient = [&](Value x, Value y) { return g.op("Div", x, y); };
  auto is_zero = [&](Value x) { return g.op("Equal", x, g.scalar_like(x, 0)); };
  if (!b.im) {
    if (static_number(g, b.re).value_or(0) == 0) b.re = g.op("Where", is_zero(b.re), g.op("Abs", b.re), b.re);
    Value real = quotient(a.re, b.re);
    return {real, a.im ? quotient(a.im, b.re) : Value()};
  }
  Value size = g.op("Max", g.op("Abs", b.re), g.op("Abs", b.im)), by_zero = is_zero(size);
  const Complex unit{quotient(b.re, size), quotient(b.im, size)};
  Value norm = g.op("Add", g.op("Mul", b.re, unit.re), g.op("Mul", b.im, unit.im));
  const Complex product = multiply(g, a, {unit.re, g.op("Neg", unit.im)});
  Value imaginary = a.im ? a.im : g.scalar_like(a.re, 0);
  return {g.op("Where", by_zero, quotient(a.re, size), quotient(product.re, norm)),
          g.op("Where", by_zero, quotient(imaginary, size), quotient(product.im, norm))};
}

// Computed in float64, in which squares of float32 neither overflow nor underflow.
Value absolute(GraphBuilder& g, Complex z) {
  if (!z.im) return g.op("Abs", z.re);
  const Parts p(g);
  return g.cast(p.length(p.wide(z)), z.re.element_type());
}

// exp(exponent * log(base)). A power of base 0 is 0 if the exponent's real part is positive and infinite if
// it is negative; 0^0 is 1 if the exponent is a number and NaN if it is a tensor, as in PyTorch.
Complex power(GraphBuilder& g, Complex base, Complex exponent, bool by_number) {
  const ElementType type = base.re.element_type();
  const Parts p(g);
  base = p.wide(base);
  exponent = p.wide(exponent);
  const Complex result = p.exp(multiply(g, exponent, p.log(base)));
  Value zero = p.number(0);
  Value of_zero = g.op("Equal", p.length(base), zero), to_zero = g.op("Equal", p.length(exponent), zero);
  Value positive = g.op("Greater", exponent.re, zero), negative = g.op("Less", exponent.re, zero);
  const auto part = [&](Value value, double to_negative, double otherwise) {
    Value at_zero = p.where(positive, zero, p.where(negative, p.number(to_negative), p.number(NAN)));
    value = p.where(of_zero, at_zero, value);
    return g.cast(by_number ? p.where(to_zero, p.number(otherwise), value) : value, type);
  };
  return {part(result.re, INFINITY, 1), part(result.im, NAN, 0)};
}

ComplexFunction complex_function(std::string_view op) {
  const auto found = table().find(op);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace opbridge::lowering
