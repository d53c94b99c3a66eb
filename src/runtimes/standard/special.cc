// Special functions, computed in float64.
#include <cmath>
#include <numbers>
#include <span>

#include "lowering/add.h"
#include "lowering/common.h"
#include "runtimes/standard/bodies.h"

namespace opbridge::standard {
namespace {

using std::numbers::pi;
using std::numbers::sqrt2;
const double sqrt_pi = std::sqrt(pi);

Value constant(GraphBuilder& g, double value) { return g.scalar(value, ElementType::float64); }
Value add(GraphBuilder& g, Value a, Value b) { return g.op("Add", a, b); }
Value add(GraphBuilder& g, Value a, double b) { return g.op("Add", a, constant(g, b)); }
Value sub(GraphBuilder& g, Value a, Value b) { return g.op("Sub", a, b); }
Value sub(GraphBuilder& g, double a, Value b) { return g.op("Sub", constant(g, a), b); }
Value mul(GraphBuilder& g, Value a, Value b) { return g.op("Mul", a, b); }
Value mul(GraphBuilder& g, Value a, double b) { return g.op("Mul", a, constant(g, b)); }
Value div(GraphBuilder& g, Value a, Value b) { return g.op("Div", a, b); }
Value div(GraphBuilder& g, double a, Value b) { return g.op("Div", constant(g, a), b); }
Value less(GraphBuilder& g, Value a, double b) { return g.op("Less", a, constant(g, b)); }
Value equal(GraphBuilder& g, Value a, double b) { return g.op("Equal", a, constant(g, b)); }
Value either(GraphBuilder& g, Value condition, Value a, Value b) { return g.op("Where", condition, a, b); }
Value either(GraphBuilder& g, Value condition, double a, Value b) {
  return g.op("Where", condition, constant(g, a), b);
}
Value square(GraphBuilder& g, Value x) { return g.op("Mul", x, x); }
Value negative(GraphBuilder& g, Value x) { return g.op("Neg", x); }

// The polynomial with these coefficients, that of the highest power first.
Value polynomial(GraphBuilder& g, Value x, std::span<const double> coefficients) {
  Value result = constant(g, coefficients.front());
  for (const double coefficient : coefficients.subspan(1)) result = add(g, mul(g, result, x), coefficient);
  return result;
}

// (1 + 2x) exp(x^2) erfc(x) as a polynomial of (x - center) / (x + center) in [-1, 1], that is for x >= 0.
constexpr double center = 3.75;
constexpr double erfcx_coefficients[] = {
    4.434959070009628e-10,  3.110310719839165e-10,  -5.28428697963142e-09,   -3.743568033634583e-09,
    3.8965452548985966e-08, 2.3261913276696566e-08, -2.591069687796658e-07,  -5.721597255990987e-08,
    1.752057970166318e-06,  -9.735619015182663e-07, -1.1444412439171722e-05, 2.2384240314224437e-05,
    5.1649211390702855e-05, -0.0002901540809795271, 0.0002937136342850081,   0.0017556258530017257,
    -0.009746579552504244,  0.028362277418940665,   -0.058693398590212366,   0.09230432116037876,
    -0.10880393014171785,   0.08227673849014516,    0.003585415485463775,    -0.14024059858554697,
    1.2375126308378275};

// exp(x^2) erfc(x) for x >= 0.
Value erfcx_of_positive(GraphBuilder& g, Value x) {
  Value finite = either(g, less(g, x, 1e300), x, constant(g, 1e300));
  Value t = div(g, add(g, finite, -center), add(g, finite, center));
  return div(g, polynomial(g, t, erfcx_coefficients), add(g, mul(g, x, 2), 1));
}

Value erfcx(GraphBuilder& g, Value x) {
  Value right = erfcx_of_positive(g, g.op("Abs", x));
  Value left = sub(g, mul(g, g.op("Exp", square(g, x)), 2), right);
  return either(g, less(g, x, 0), left, right);
}

Value erfc(GraphBuilder& g, Value x) {
  Value right = mul(g, g.op("Exp", negative(g, square(g, x))), erfcx_of_positive(g, g.op("Abs", x)));
  return either(g, less(g, x, 0), sub(g, 2, right), right);
}

Value ndtr(GraphBuilder& g, Value x) { return mul(g, erfc(g, mul(g, x, -1 / sqrt2)), 0.5); }

Value log_ndtr(GraphBuilder& g, Value x) {
  Value size = g.op("Abs", x);
  Value tail = g.op("Log", mul(g, erfcx_of_positive(g, mul(g, size, 1 / sqrt2)), 0.5));
  Value left = sub(g, tail, mul(g, square(g, x), 0.5));
  Value right = lowering::log1p(g, mul(g, erfc(g, mul(g, x, 1 / sqrt2)), -0.5));
  return either(g, less(g, x, -1), left, right);
}

// A step of Halley's method towards a root of erf(x) - y, where `excess` is (erf(x) - y) / erf'(x).
Value halley(GraphBuilder& g, Value x, Value excess) {
  return sub(g, x, div(g, excess, add(g, mul(g, x, excess), 1)));
}

// erfinv(y) / y to 7 digits, as a function of w = -log(1 - y^2) up to 16 (Giles 2010, "Approximating the
// erfinv function", table 5).
Value erfinv_estimate(GraphBuilder& g, Value w) {
  constexpr double low[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                            -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  constexpr double high[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                             -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  return either(g, less(g, w, 5), polynomial(g, add(g, w, -2.5), low),
                polynomial(g, add(g, g.op("Sqrt", w), -3), high));
}

// The inverse of erf for |y| <= 1/2. One step triples the digits.
Value erfinv_of_small(GraphBuilder& g, Value y) {
  Value w = negative(g, g.op("Log", mul(g, sub(g, 1, y), add(g, y, 1))));
  Value x = mul(g, y, erfinv_estimate(g, w));
  Value slope = mul(g, g.op("Exp", square(g, x)), sqrt_pi / 2);
  return halley(g, x, mul(g, sub(g, g.op("Erf", x), y), slope));
}

// The inverse of erfc for 0 < y <= 1/2; for small y it starts from Hastings' approximation (Abramowitz &
// Stegun 26.2.23).
Value erfcinv_of_small(GraphBuilder& g, Value y) {
  Value log = g.op("Log", y);
  const auto improved = [&](Value x) {
    Value excess = sub(g, g.op("Exp", add(g, square(g, x), log)), erfcx_of_positive(g, x));
    return halley(g, x, mul(g, excess, sqrt_pi / 2));
  };
  Value w = negative(g, g.op("Log", mul(g, y, sub(g, 2, y))));
  Value near = mul(g, sub(g, 1, y), erfinv_estimate(g, w));
  constexpr double above[] = {0.010328, 0.802853, 2.515517}, below[] = {0.001308, 0.189269, 1.432788, 1};
  Value t = g.op("Sqrt", mul(g, add(g, log, -std::numbers::ln2), -2));
  Value far = mul(g, sub(g, t, div(g, polynomial(g, t, above), polynomial(g, t, below))), 1 / sqrt2);
  far = improved(improved(far));
  return improved(either(g, less(g, y, 1e-6), far, near));
}

Value erfinv(GraphBuilder& g, Value y) {
  Value size = g.op("Abs", y);
  Value tail = erfcinv_of_small(g, sub(g, 1, size));
  tail = either(g, equal(g, size, 1), INFINITY, tail);
  tail = either(g, less(g, y, 0), negative(g, tail), tail);
  Value inside = either(g, g.op("Greater", size, constant(g, 0.5)), tail, erfinv_of_small(g, y));
  Value outside = g.op("Not", g.op("Or", less(g, size, 1), equal(g, size, 1)));
  return either(g, outside, NAN, inside);
}

Value ndtri(GraphBuilder& g, Value p) {
  Value low = mul(g, erfcinv_of_small(g, mul(g, p, 2)), -sqrt2);
  Value high = mul(g, erfcinv_of_small(g, mul(g, sub(g, 1, p), 2)), sqrt2);
  Value middle = mul(g, erfinv_of_small(g, add(g, mul(g, p, 2), -1)), sqrt2);
  Value result =
      either(g, less(g, p, 0.25), low, either(g, g.op("Greater", p, constant(g, 0.75)), high, middle));
  Value inside = g.op("And", g.op("Greater", p, constant(g, 0)), less(g, p, 1));
  result = either(g, inside, result, constant(g, NAN));
  return either(g, equal(g, p, 0), -INFINITY, either(g, equal(g, p, 1), INFINITY, result));
}

// The Bernoulli numbers B(2), B(4), … (DLMF 24.2).
constexpr double bernoulli[] = {1. / 6,  -1. / 30,     1. / 42, -1. / 30,
                                5. / 66, -691. / 2730, 7. / 6,  -3617. / 510.};
constexpr int shift = 10;  // from there on the asymptotic series are exact

// The sum of bernoulli[k - 1] factor(k) / z^(2k), k = 1, 2, …
template <class Factor>
Value bernoulli_sum(GraphBuilder& g, Value z, const Factor& factor) {
  std::vector<double> coefficients{0};
  for (int k = 1; k <= static_cast<int>(std::size(bernoulli)); ++k)
    coefficients.insert(coefficients.begin(), bernoulli[k - 1] * factor(k));
  return polynomial(g, div(g, 1, square(g, z)), coefficients);
}

// Stirling's series (DLMF 5.11.1) from 10 on, the recurrence (5.5.1) below 10, and reflection (5.5.3) below
// 1/2.
Value lgamma(GraphBuilder& g, Value x) {
  Value reflected = less(g, x, 0.5);
  Value y = either(g, reflected, sub(g, 1, x), x);
  Value small = less(g, y, shift);
  Value product = constant(g, 1);
  for (int k = 0; k < shift; ++k) product = mul(g, product, add(g, y, k));
  Value z = either(g, small, add(g, y, shift), y);
  Value stirling = add(g, mul(g, add(g, z, -0.5), add(g, g.op("Log", z), -1)), std::log(2 * pi) / 2 - 0.5);
  Value series = bernoulli_sum(g, z, [](int k) { return 1. / (2 * k * (2 * k - 1)); });
  Value right = add(g, stirling, mul(g, series, z));
  right = either(g, small, sub(g, right, g.op("Log", product)), right);
  right = either(g, equal(g, y, INFINITY), INFINITY, right);
  Value sine = g.op("Sin", mul(g, sub(g, x, g.op("Floor", x)), pi));
  Value left = sub(g, sub(g, std::log(pi), g.op("Log", sine)), right);
  return either(g, equal(g, x, -INFINITY), INFINITY, either(g, reflected, left, right));
}

// DLMF 5.11.2, 5.5.2 and 5.5.4.
Value digamma(GraphBuilder& g, Value x) {
  Value reflected = less(g, x, 0);
  Value y = either(g, reflected, sub(g, 1, x), x);
  Value z = add(g, y, shift);
  Value series = bernoulli_sum(g, z, [](int k) { return 1. / (2 * k); });
  Value right = sub(g, sub(g, g.op("Log", z), div(g, 0.5, z)), series);
  for (int k = 0; k < shift; ++k) right = sub(g, right, div(g, 1, add(g, y, k)));
  Value fraction = add(g, x, g.op("Floor", negative(g, x)));  // in (-1, 0], of x < 0
  Value left = sub(g, right, div(g, pi, g.op("Tan", mul(g, fraction, pi))));
  left = either(g, equal(g, fraction, 0), NAN, left);
  Value result = either(g, reflected, left, right);
  return either(g, equal(g, x, 0), div(g, -1, x), result);  // by the sign of zero
}

// DLMF 5.15.1 and 5.15.8 for x >= 0.
Value trigamma_of_positive(GraphBuilder& g, Value y) {
  Value z = add(g, y, shift);
  Value series = div(g, bernoulli_sum(g, z, [](int) { return 1.; }), z);
  Value result = add(g, add(g, div(g, 1, z), div(g, 0.5, square(g, z))), series);
  for (int k = 0; k < shift; ++k) result = add(g, result, div(g, 1, square(g, add(g, y, k))));
  return result;
}

// The n-th derivative of digamma. As in PyTorch, that of order 1 is rounded to a finite number at its poles,
// in the element type of the call.
Value polygamma(GraphBuilder& g, int64_t n, Value self) {
  const ElementType type = self.element_type();
  Value x = g.cast(self, ElementType::float64);
  if (n == 0) return g.cast(digamma(g, x), type);
  if (n > 1) g.refuse("polygamma of an order above 1 has no body; export with target=\"onnxruntime\"");
  Value reflected = less(g, x, 0);
  Value right = trigamma_of_positive(g, either(g, reflected, sub(g, 1, x), x));
  Value sine = g.op("Sin", mul(g, sub(g, x, g.op("Floor", x)), pi));
  Value at_pole = g.op("Equal", x, g.op("Floor", x));
  Value rounded = g.op("Sin", g.op("Mul", self, g.scalar_like(self, pi)));
  sine = either(g, at_pole, g.cast(rounded, ElementType::float64), sine);
  Value left = sub(g, div(g, pi * pi, square(g, sine)), right);
  return g.cast(either(g, reflected, left, right), type);
}

// exp(-x) I0(x): for x <= 8, a polynomial of x / 4 - 1; for greater x, a polynomial of 16 / x - 1, divided by
// the square root of x.
constexpr double i0_low[] = {
    -1.601973429472564e-08,  5.753995763975938e-08,  -8.791296325157322e-08, 2.699153146632741e-07,
    -1.1360524712119476e-06, 3.40892232481125e-06,   -9.194264364358614e-06, 2.4986432931858343e-05,
    -6.555606021032439e-05,  0.00016258361907161146, -0.0003828745840656792, 0.0008562120964037982,
    -0.001811898032010941,   0.0036171685199186195,  -0.006792396673321815,  0.011960065956449436,
    -0.019682655309282406,   0.030177914326369393,   -0.04298594937721531,   0.05677703173239174,
    -0.06954119562303405,    0.07927522592865593,    -0.08496338091593245,   0.08734341617468505,
    -0.08904344136076327,    0.0945156285399639,     -0.11300432688620547,   0.20700192122398667};
constexpr double i0_high[] = {
    -2.4421972688131832e-11, 9.114760157514253e-11,  1.7698085539456536e-10, -6.494591114401118e-10,
    -6.327909921997027e-10,  2.163681278413876e-09,  1.6084886155781772e-09, -4.5305710768621196e-09,
    -3.5862834111582305e-09, 6.522264862032271e-09,  7.600254486433509e-09,  -5.0175940345046716e-09,
    -1.3427511481900905e-08, -6.856484545962442e-09, 7.559364098665437e-09,  2.156780676115673e-08,
    3.932512321137824e-08,   8.872014585661555e-08,  2.9735992084667734e-07, 1.4838476780922646e-06,
    1.114303378845176e-05,   0.00013621607438951463, 0.0033605519836678913,  0.4021765094450081};
// The same for I1, except that the first polynomial is that of exp(-x) I1(x) / x.
constexpr double i1_low[] = {
    -1.3931836382589292e-09, 5.211654337723065e-09,  -9.144761049555143e-09, 2.9883402742599985e-08,
    -1.2376686539665326e-07, 3.9091632529126733e-07, -1.133551346432692e-06, 3.2758896983910484e-06,
    -9.135581253751598e-06,  2.4248618918164148e-05, -6.142435066991627e-05, 0.0001484126353082137,
    -0.00034117562574038554, 0.0007445158546973146,  -0.0015388747130763492, 0.003005761422600446,
    -0.0055345678088487725,  0.009583962342948091,   -0.015571309250544394,  0.023686016933733296,
    -0.03367135552039122,    0.04467457262304859,    -0.05528003922703299,   0.06376740371333725,
    -0.06848260620582576,    0.06805759990951267,    -0.06112433802966629,   0.04468770987560883};
constexpr double i1_high[] = {
    2.2421768596847442e-11,  -9.491890392992048e-11,  -1.6283264322621244e-10, 6.7727478454462e-10,
    5.870664618471487e-10,   -2.2624401109204446e-09, -1.5218214060680734e-09, 4.763780078020254e-09,
    3.501765193290176e-09,   -6.9444186339873875e-09, -7.687251308765992e-09,  5.5720183980930355e-09,
    1.4051746928735543e-08,  6.84757829926934e-09,    -8.432168972932417e-09,  -2.3394122958362557e-08,
    -4.3128498031006734e-08, -1.0001075046243961e-07, -3.4838563464253135e-07, -1.8349102493990178e-06,
    -1.5038547198221758e-05, -0.00021923576383137776, -0.009749577193235765,   0.38939845902587233};

Value low_argument(GraphBuilder& g, Value size) { return add(g, mul(g, size, 0.25), -1); }
Value above_8(GraphBuilder& g, Value size, std::span<const double> coefficients) {
  Value t = add(g, div(g, 16, size), -1);
  return div(g, polynomial(g, t, coefficients), g.op("Sqrt", size));
}

Value i0e(GraphBuilder& g, Value x) {
  Value size = g.op("Abs", x);
  Value low = polynomial(g, low_argument(g, size), i0_low);
  return either(g, g.op("Greater", size, constant(g, 8)), above_8(g, size, i0_high), low);
}

Value i1e(GraphBuilder& g, Value x) {
  Value size = g.op("Abs", x);
  Value low = mul(g, x, polynomial(g, low_argument(g, size), i1_low));
  Value high = above_8(g, size, i1_high);
  high = either(g, less(g, x, 0), negative(g, high), high);
  return either(g, g.op("Greater", size, constant(g, 8)), high, low);
}

// In two steps, so that exp(x) does not overflow before the result. NaN for infinity, as in PyTorch.
Value grown(GraphBuilder& g, Value scaled, Value x) {
  Value half = g.op("Exp", mul(g, g.op("Abs", x), 0.5));
  return mul(g, mul(g, scaled, half), half);
}

}  // namespace

void register_special(SymbolicRegistry& registry) {
  auto on = lowering::add(registry);

  using Compute = Value (*)(GraphBuilder&, Value);
  struct Function {
    const char* name;
    Compute compute;
  };
  for (const auto& [name, compute] : std::initializer_list<Function>{
           {"digamma", digamma},
           {"erfc", erfc},
           {"erfcx", erfcx},
           {"erfinv", erfinv},
           {"i0", [](GraphBuilder&g, Value x) { return grown(g, i0e(g, x), x); }},
           {"i0e", i0e},
           {"i1", [](GraphBuilder&g, Value x) { return grown(g, i1e(g, x), x); }},
           {"i1e", i1e},
           {"lgamma", lgamma},
           {"log_ndtr", log_ndtr},
           {"ndtr", ndtr},
           {"ndtri", ndtri},
       }) {
    on("opbridge::" + std::string(name) + "(Tensor self) -> Tensor", Since{10},
       [compute = compute](GraphBuilder& g, Value self) {
         return g.cast(compute(g, g.cast(self, ElementType::float64)), self.element_type());
       });
  }
  on("opbridge::polygamma(int n, Tensor self) -> Tensor", Since{9}, polygamma);
}

}  // namespace opbridge::standard
