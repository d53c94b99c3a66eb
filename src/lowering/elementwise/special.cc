// Mathematical functions of two tensors, and special functions, which are opbridge's own operators.
#include "lowering/elementwise/special.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lowering/add.h"
#include "lowering/kernel.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {

// Computes the angle of (|x|, |y|), in [0, pi/2], and moves it to the quadrant of (x, y). Minus zero counts
// as negative.
Value atan2(GraphBuilder& g, Value y, Value x) {
  Value height = g.op("Abs", y), width = g.op("Abs", x);
  Value ratio = g.op("Div", height, width);
  // Equal magnitudes are not divided: 0/0 must be 0 here, and inf/inf must be 1.
  Value equal_ratio = g.cast(g.op("Greater", height, g.scalar_like(x, 0)), x.element_type());
  ratio = g.op("Where", g.op("Equal", height, width), equal_ratio, ratio);
  Value angle = g.op("Atan", ratio);
  Value left = g.op("Sub", g.scalar_like(x, std::numbers::pi), angle);
  angle = g.op("Where", is_negative(g, x), left, angle);
  return g.op("Where", is_negative(g, y), g.op("Neg", angle), angle);
}

namespace {

// A function of two values with the same floating-point opmath type.
using Compute = Value (*)(GraphBuilder& g, Value a, Value b);

// float32 is computed in float64, in which its squares neither overflow nor underflow; float64 is divided by
// the greater magnitude. The result is infinite if either value is, even if the other is NaN.
Value hypot(GraphBuilder& g, Value a, Value b) {
  const ElementType type = a.element_type();
  a = g.op("Abs", g.cast(a, ElementType::float64));
  b = g.op("Abs", g.cast(b, ElementType::float64));
  const auto root = [&](Value x, Value y) {
    return g.op("Sqrt", g.op("Add", g.op("Mul", x, x), g.op("Mul", y, y)));
  };
  Value length;
  if (type == ElementType::float64) {
    Value greatest = g.op("Max", a, b);
    Value divisor =
        g.op("Where", g.op("Equal", greatest, g.scalar_like(a, 0)), g.scalar_like(a, 1), greatest);
    length = g.op("Mul", greatest, root(g.op("Div", a, divisor), g.op("Div", b, divisor)));
  } else {
    length = root(a, b);
  }
  Value infinity = g.scalar_like(a, INFINITY);
  Value infinite = g.op("Or", g.op("Equal", a, infinity), g.op("Equal", b, infinity));
  return g.cast(g.op("Where", infinite, infinity, length), type);
}

// log2(2^a + 2^b)
Value logaddexp2(GraphBuilder& g, Value a, Value b) {
  auto times = [&](Value value, double factor) { return g.op("Mul", value, g.scalar_like(value, factor)); };
  return times(logaddexp(g, times(a, std::numbers::ln2), times(b, std::numbers::ln2)), std::numbers::log2e);
}

// x * log, or 0 where x is 0 and `other` is not NaN.
Value times_log(GraphBuilder& g, Value x, Value log, Value other) {
  Value zero = g.scalar_like(x, 0);
  Value vanishes = g.op("And", g.op("Equal", x, zero), g.op("Not", g.op("IsNaN", other)));
  return g.op("Where", vanishes, zero, g.op("Mul", x, log));
}

Value xlogy(GraphBuilder& g, Value x, Value y) { return times_log(g, x, g.op("Log", y), y); }

Value xlog1py(GraphBuilder& g, Value x, Value y) { return times_log(g, x, log1p(g, y), y); }

// For floating-point numbers and an integer exponent the result is exact: three multiplications keep each
// power of 2 finite. Otherwise multiplies by a power of 2, which has the exponent's type if that is floating
// point.
Value ldexp(GraphBuilder& g, Value self, Value exponent) {
  const ElementType type = g.result().element_type, own = exponent.element_type();
  const auto times = [&](Value a, Value b) { return g.op("Mul", a, b); };
  const auto power = [&](Value of) { return g.op("Pow", g.scalar_like(of, 2), of); };
  Value x = operand(g, self, type);
  if (is_floating_point(own) || !is_floating_point(self.element_type())) {
    const ElementType of_power = is_floating_point(own) ? own : type;
    Value factor = g.cast(power(operand(g, exponent, of_power)), of_power);
    return g.cast(times(x, g.cast(factor, x.element_type())), type);
  }
  Value all = g.cast(exponent, ElementType::float64);
  all = g.op("Clip", all, g.scalar_like(all, -2400), g.scalar_like(all, 2400));
  Value third = g.op("Floor", g.op("Div", all, g.scalar_like(all, 3)));
  Value rest = g.op("Sub", all, times(third, g.scalar_like(all, 2)));
  Value scaled = times(times(g.cast(x, ElementType::float64), power(third)), power(third));
  return g.cast(times(scaled, power(rest)), type);
}

// Whether any element is nonzero: the condition of a loop that ends when all are 0.
Value any_nonzero(GraphBuilder& g, Value x) {
  Value there = g.cast(x, ElementType::boolean);
  // Append a false, for a tensor without elements.
  Value all = g.concat({flat(g, there), filled(g, std::vector{Dim(1)}, 0, ElementType::boolean)}, 0);
  g.typed(all, std::vector{g.unknown_size("flat", 1)});
  return any_along(g, all, std::vector<int64_t>{0}, false);
}

// Euclid's algorithm on all elements at once, until all remainders are 0. The absolute value of the least
// integer is negative, and so are its remainders, as in C.
Value gcd(GraphBuilder& g, Value a, Value b) {
  const auto& [type, result_dims] = g.result();
  const std::vector<Dim>& dims = *result_dims;
  const auto size = [&](Value value) {
    return g.expand(g.cast(g.cast(g.op("Abs", value), type), value.element_type()), dims);
  };
  a = size(a);
  b = size(b);
  const ir::TensorType number{a.element_type(), dims};
  const ir::TensorType counter{ElementType::int64, std::vector<Dim>()},
      flag{ElementType::boolean, std::vector<Dim>()};
  ir::GraphPtr body =
      g.subgraph("gcd", {counter, flag, number, number}, [&](GraphBuilder& on, std::vector<Value> in) {
        Value done = on.op("Equal", in[3], on.scalar_like(in[3], 0));
        Value divisor = on.op("Where", done, on.scalar_like(in[3], 1), in[3]);
        Value rest = on.op("Where", done, in[3], on.op("Mod", in[2], divisor, attr("fmod", 1)));
        on.typed(rest, number);
        return std::vector{any_nonzero(on, rest), on.op("Where", done, in[2], in[3]), rest};
      });
  return g.typed(g.ops<2>("Loop", Value(), any_nonzero(g, a), b, a, attr("body", body))[0], number);
}

Value lcm(GraphBuilder& g, Value a, Value b) {
  Value divisor = gcd(g, a, b);
  Value none = g.op("Equal", divisor, g.scalar_like(a, 0));
  Value share = g.op("Div", a, g.op("Where", none, g.scalar_like(a, 1), divisor));
  const ElementType wide = integral_promotion(a.element_type());
  return g.op("Abs", g.op("Mul", g.cast(share, wide), g.cast(b, wide)));
}

Value nextafter(GraphBuilder& g, Value self, Value other) {
  const auto& [type, dims] = g.result();
  return kernel(g, "opbridge::nextafter", {g.cast(self, type), g.cast(other, type)}, {type, dims});
}

std::array<Value, 2> frexp(GraphBuilder& g, Value self) {
  Value x = operand(g, self, self.element_type());
  auto [mantissa, exponent] = g.ops<2>("opbridge::frexp", x);
  g.typed(mantissa, x.type());
  g.typed(exponent, {ElementType::int32, x.dims()});
  return {g.cast(mantissa, self.element_type()), exponent};
}

Value cross(GraphBuilder& g, Value a, Value b, int64_t dim) {
  const auto rank = static_cast<int64_t>(g.result().dims->size());
  auto turned = [&](Value value, std::vector<int64_t> order) {
    return g.gather(value, g.ints(order), wrap_axis(dim, rank) - rank + value.rank());
  };
  Value left = g.op("Mul", turned(a, {1, 2, 0}), turned(b, {2, 0, 1}));
  return g.op("Sub", left, g.op("Mul", turned(a, {2, 0, 1}), turned(b, {1, 2, 0})));
}

struct Function {
  std::vector<const char*> names;  // ATen's names, with the arguments of the schema
  const char* op;
};

// The multivariate log-gamma function: the sum of lgamma(x - j / 2) for j = 0, 1, … p - 1, and a constant.
Value mvlgamma(GraphBuilder& g, Value self, int64_t p) {
  if (p < 1) g.refuse("p must be at least 1");
  check_constant(g, p);
  return in_opmath_type(g, self, [&](Value x) {
    std::vector<double> shifts;
    for (int64_t j = 0; j < p; ++j) shifts.push_back(-static_cast<double>(j) / 2);
    Value shift = g.cast(g.constant(ir::Weight::of(std::span<const double>(shifts), {p})), x.element_type());
    Value arguments = g.op("Add", g.unsqueeze(x, {-1}), shift);
    std::vector<Dim> dims = x.dims();
    dims.emplace_back(p);
    Value each = kernel(g, "opbridge::lgamma", {arguments}, {x.element_type(), dims});
    const double pairs = static_cast<double>(p) * static_cast<double>(p - 1);
    Value constant = g.scalar_like(x, pairs / 4 * std::log(std::numbers::pi));
    return g.op("Add", g.reduce("ReduceSum", each, {-1}, false), constant);
  });
}

}  // namespace

// Repeated squaring in a loop until all exponents are 0. The result wraps around, as PyTorch's does; ONNX
// does not define Pow of integers beyond the type, or with a negative exponent.
Value power_of_integers(GraphBuilder& g, Value base, Value exponent, const std::vector<Dim>& dims) {
  const auto number = [](GraphBuilder& on, Value like, int64_t value) { return on.scalar_like(like, value); };
  // A result without elements needs no loop.
  if (std::ranges::any_of(dims, [](const Dim& dim) { return dim.is(0); }))
    return filled(g, dims, 0, base.element_type());
  base = g.expand(base, dims);
  exponent = g.expand(exponent, dims);
  Value inverse = g.op("Less", exponent, number(g, exponent, 0));
  Value one = g.expand(number(g, base, 1), dims);
  const ir::TensorType numbers{base.element_type(), dims}, counter{ElementType::int64, std::vector<Dim>()},
      flag{ElementType::boolean, std::vector<Dim>()};
  Value left = g.op("Abs", exponent);
  // For a negative exponent only the last bit matters: the result is 0 unless the base is 1 or -1.
  left = g.op("Where", inverse, g.op("Mod", left, number(g, left, 2)), left);
  ir::GraphPtr body = g.subgraph(
      "square", {counter, flag, numbers, numbers, numbers}, [&](GraphBuilder& on, std::vector<Value> in) {
        Value two = number(on, in[4], 2);
        Value odd = on.op("Equal", on.op("Mod", in[4], two), number(on, in[4], 1));
        Value product = on.op("Where", odd, on.op("Mul", in[2], in[3]), in[2]);
        Value rest = on.op("Div", in[4], two);
        return std::vector{any_nonzero(on, rest), product, on.op("Mul", in[3], in[3]), rest};
      });
  Value power = g.ops<3>("Loop", Value(), any_nonzero(g, left), one, base, left, attr("body", body))[0];
  g.typed(power, numbers);
  Value is_unit = g.op("Equal", g.op("Abs", base), number(g, base, 1));
  return g.op("Where", g.op("And", inverse, g.op("Not", is_unit)), number(g, base, 0), power);
}

void register_special(SymbolicRegistry& registry) {
  auto on = add(registry);

  auto on_pair = [&](const std::string& line, Compute compute) {
    on(line, Since{9}, [compute](GraphBuilder& g, Value a, Value b) {
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
  on_pair("aten::lcm(Tensor self, Tensor other) -> Tensor", lcm);
  on("aten::nextafter(Tensor self, Tensor other) -> Tensor", Since{9}, nextafter);
  on("aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", Since{9}, frexp);
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
  on("aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor", Since{9}, ldexp);
  on_pair("aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", xlogy);
  on_pair("aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::special_xlogy(Tensor self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor", xlogy);
  on_pair("aten::special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor", xlogy);
  on_pair("aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor", xlog1py);
  on_pair("aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor", xlog1py);

  for (const auto& [names, op] : std::initializer_list<Function>{
           {{"digamma(Tensor self)", "special_digamma(Tensor self)", "special_psi(Tensor self)"}, "digamma"},
           {{"erfc(Tensor self)", "special_erfc(Tensor self)"}, "erfc"},
           {{"erfinv(Tensor self)", "special_erfinv(Tensor self)"}, "erfinv"},
           {{"i0(Tensor self)", "special_i0(Tensor self)", "special_modified_bessel_i0(Tensor self)"}, "i0"},
           {{"lgamma(Tensor self)", "special_gammaln(Tensor self)"}, "lgamma"},
           {{"special_airy_ai(Tensor x)"}, "airy_ai"},
           {{"special_bessel_j0(Tensor self)"}, "bessel_j0"},
           {{"special_bessel_j1(Tensor self)"}, "bessel_j1"},
           {{"special_bessel_y0(Tensor self)"}, "bessel_y0"},
           {{"special_bessel_y1(Tensor self)"}, "bessel_y1"},
           {{"special_erfcx(Tensor self)"}, "erfcx"},
           {{"special_i0e(Tensor self)"}, "i0e"},
           {{"special_i1(Tensor self)", "special_modified_bessel_i1(Tensor self)"}, "i1"},
           {{"special_i1e(Tensor self)"}, "i1e"},
           {{"special_log_ndtr(Tensor self)"}, "log_ndtr"},
           {{"special_modified_bessel_k0(Tensor self)"}, "modified_bessel_k0"},
           {{"special_modified_bessel_k1(Tensor self)"}, "modified_bessel_k1"},
           {{"special_ndtr(Tensor self)"}, "ndtr"},
           {{"special_ndtri(Tensor self)"}, "ndtri"},
           {{"special_scaled_modified_bessel_k0(Tensor x)"}, "scaled_modified_bessel_k0"},
           {{"special_scaled_modified_bessel_k1(Tensor x)"}, "scaled_modified_bessel_k1"},
           {{"special_spherical_bessel_j0(Tensor x)"}, "spherical_bessel_j0"},
       }) {
    for (const char* name : names) {
      on(fmt::format("aten::{} -> Tensor", name), Since{9},
         [op = fmt::format("opbridge::{}", op)](GraphBuilder& g, Value self) {
           return floating_kernel(g, op, {self});
         });
    }
  }

  for (const auto& [names, op] : std::initializer_list<Function>{
           {{"igamma(Tensor self, Tensor other)", "special_gammainc(Tensor self, Tensor other)"}, "igamma"},
           {{"igammac(Tensor self, Tensor other)", "special_gammaincc(Tensor self, Tensor other)"},
            "igammac"},
           {{"special_zeta(Tensor self, Tensor other)", "special_zeta.self_scalar(Scalar self, Tensor other)",
             "special_zeta.other_scalar(Tensor self, Scalar other)"},
            "zeta"},
       }) {
    for (const char* name : names) {
      on(fmt::format("aten::{} -> Tensor", name), Since{9},
         [op = fmt::format("opbridge::{}", op)](GraphBuilder& g, Value self, Value other) {
           return floating_kernel(g, op, {self, other});
         });
    }
  }

  for (const char* name :
       {"chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
        "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
        "legendre_polynomial_p", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
        "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w"}) {
    for (const char* overload :
         {"(Tensor x, Tensor n)", ".x_scalar(Scalar x, Tensor n)", ".n_scalar(Tensor x, Scalar n)"}) {
      on(fmt::format("aten::special_{}{} -> Tensor", name, overload), Since{9},
         [op = fmt::format("opbridge::{}", name)](GraphBuilder& g, Value x, Value n) {
           return floating_kernel(g, op, {x, n});
         });
    }
  }

  for (const char* name : {"polygamma", "special_polygamma"}) {
    on(fmt::format("aten::{}(int n, Tensor self) -> Tensor", name), Since{9},
       [](GraphBuilder& g, int64_t n, Value self) {
         return floating_kernel(g, "opbridge::polygamma", {self}, {attr("n", n)});
       });
  }
  on("aten::mvlgamma(Tensor self, int p) -> Tensor", Since{9}, mvlgamma);
  on("aten::special_multigammaln(Tensor self, int p) -> Tensor", Since{9}, mvlgamma);
}

}  // namespace opbridge::lowering
