// Operators on complex tensors that are neither linear nor elementwise functions of one tensor.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lowering/common.h"
#include "lowering/complex/complex_call.h"
#include "lowering/complex/complex_functions.h"
#include "lowering/formula.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

Value finite(GraphBuilder& g, Complex z) {
  auto bounded = [&](Value x) { return g.op("Less", g.op("Abs", x), g.scalar_like(x, INFINITY)); };
  return g.op("And", bounded(z.re), bounded(z.im));
}

template <class Call>
Complex is_close(const Call& call) {
  GraphBuilder& g = call.g;
  const Complex a = call.full("self"), b = call.full("other");
  auto nan = [&](Complex z) { return g.op("Or", g.op("IsNaN", z.re), g.op("IsNaN", z.im)); };
  Value distance = absolute(g, add(g, a, negative(g, b)));
  Value allowed =
      g.op("Add", call.get("atol", 1e-8).re, g.op("Mul", call.get("rtol", 1e-5).re, absolute(g, b)));
  Value bounded = g.op("Less", distance, g.scalar_like(distance, INFINITY));
  Value close = g.op("And", bounded, g.op("LessOrEqual", distance, allowed));
  close = g.op("Or", close, g.op("And", g.op("Equal", a.re, b.re), g.op("Equal", a.im, b.im)));
  return {call.flag("equal_nan") ? g.op("Or", close, g.op("And", nan(a), nan(b))) : close, {}};
}

Complex in_float64(GraphBuilder& g, Complex z) {
  return {g.cast(z.re, ElementType::float64), g.cast(z.im, ElementType::float64)};
}

// The power of 2 has the element type of the exponent, if that is not an integer.
template <class Call>
Complex ldexp(const Call& call) {
  GraphBuilder& g = call.g;
  const Complex exponent = call["other"];
  const ElementType given = call.part_type_of("other"), own = is_floating_point(given) ? given : call.type;
  const auto in_type_of_result = [&](Value part) { return g.cast(g.cast(part, own), call.type); };
  if (exponent.im) {
    const Complex w = in_float64(g, exponent);
    const Complex factor = power(g, {g.scalar_like(w.re, 2), {}}, w, false);
    const Complex rounded{in_type_of_result(factor.re), in_type_of_result(factor.im)};
    const Complex result = multiply(g, in_float64(g, call.full("self")), in_float64(g, rounded));
    return {g.cast(result.re, call.type), g.cast(result.im, call.type)};
  }
  // C's complex power of an infinite exponent has NaN as its imaginary part.
  const Value of = g.cast(exponent.re, own);
  const Value is_infinite = g.op("Equal", of, g.scalar_like(of, INFINITY));
  const Value factor =
      g.op("Where", is_infinite, g.scalar_like(of, NAN), g.op("Pow", g.scalar_like(of, 2), of));
  return multiply(g, call["self"], {in_type_of_result(factor), {}});
}

Complex slice(GraphBuilder& g, Complex z, int64_t axis, int64_t start, int64_t end) {
  return {g.slice(z.re, axis, start, end), g.slice(z.im, axis, start, end)};
}

Complex joined(GraphBuilder& g, Complex a, Complex b, int64_t axis) {
  return {g.concat({a.re, b.re}, axis), g.concat({a.im, b.im}, axis)};
}

// A tensor whose `size` elements along `axis` are multiplied.
struct Row {
  Complex z;
  int64_t axis, size;
};

template <class Call>
Row row_of(const Call& call) {
  GraphBuilder& g = call.g;
  Row row{call.full("self"), 0, 0};
  const std::optional<int64_t> dim = call.integer("dim");
  if (!dim || row.z.re.rank() == 0) {
    const std::vector<Dim> flat{element_count(row.z.re)};
    row.z = {g.reshape(row.z.re, flat), g.reshape(row.z.im, flat)};
  } else {
    row.axis = wrap_axis(*dim, row.z.re.rank());
  }
  if (!row.z.re.dim(row.axis).is_static()) g.refuse("a product of complex numbers needs a constant size");
  row.size = row.z.re.dim(row.axis).value();
  return row;
}

template <class Call>
Complex product(const Call& call) {
  GraphBuilder& g = call.g;
  auto [z, axis, size] = row_of(call);
  const std::vector<Dim>& dims = *g.result().dims;
  if (size == 0) return {filled(g, dims, 1, call.type), filled(g, dims, 0, call.type)};
  for (; size > 1; size -= size / 2) {  // multiplies one half by the other; an odd size leaves one element
    const int64_t half = size / 2;
    Complex products = multiply(g, slice(g, z, axis, 0, half), slice(g, z, axis, half, 2 * half));
    z = size % 2 == 0 ? products : joined(g, products, slice(g, z, axis, size - 1, size), axis);
  }
  return {g.reshape(z.re, dims), g.reshape(z.im, dims)};
}

// Computed in float64.
template <class Call>
Complex cumulative_product(const Call& call) {
  GraphBuilder& g = call.g;
  auto [z, axis, size] = row_of(call);
  z = in_float64(g, z);
  for (int64_t shift = 1; shift < size; shift *= 2) {
    const Complex products = multiply(g, slice(g, z, axis, shift, size), slice(g, z, axis, 0, size - shift));
    z = joined(g, slice(g, z, axis, 0, shift), products, axis);
  }
  const std::vector<Dim>& dims = *g.result().dims;
  return {g.cast(g.reshape(z.re, dims), call.type), g.cast(g.reshape(z.im, dims), call.type)};
}

// The powers 0 to N - 1 of each element, along a new last dim.
constexpr int64_t most_powers = 1000;
template <class Call>
Complex vander(const Call& call) {
  GraphBuilder& g = call.g;
  Complex x = in_float64(g, call.full("x"));
  const Dim count = g.result().dims->at(g.result().rank() - 1);
  if (!count.is_static() || count.value() > most_powers)
    g.refuse("powers of complex numbers need a constant N, up to 1000");
  std::vector<Value> re, im;
  Complex power{filled(g, x.re.dims(), 1, ElementType::float64),
                filled(g, x.re.dims(), 0, ElementType::float64)};
  for (int64_t i = 0; i < count.value(); ++i) {
    if (i > 0) power = multiply(g, power, x);
    re.push_back(g.unsqueeze(power.re, {-1}));
    im.push_back(g.unsqueeze(power.im, {-1}));
  }
  if (re.empty())
    return {filled(g, *g.result().dims, 0, call.type), filled(g, *g.result().dims, 0, call.type)};
  const auto stacked = [&](const std::vector<Value>& parts) {
    return g.cast(g.reshape(g.concat(parts, -1), *g.result().dims), call.type);
  };
  return {stacked(re), stacked(im)};
}

// b + log(1 + exp(a - b)), where b is the operand with the greater real part; of equal ones, the first. As in
// PyTorch, the imaginary part is not wrapped to (-pi, pi].
Complex log_of_sum(GraphBuilder& g, Complex a, Complex b) {
  Value swapped = g.op("GreaterOrEqual", a.re, b.re);
  const auto chosen = [&](Value x, Value y) { return g.op("Where", swapped, x, y); };
  const Complex less{chosen(b.re, a.re), chosen(b.im, a.im)}, greater{chosen(a.re, b.re), chosen(a.im, b.im)};
  const Complex ratio = complex_function("aten::exp")(g, add(g, less, negative(g, greater)));
  const Complex rest = add(g, greater, complex_function("aten::log1p")(g, ratio));
  // If both real parts are -inf, the result is `less`; if both are +inf, it is log(exp(a) + exp(b)).
  const auto of_itself = [&](Complex z) { return complex_function("aten::exp")(g, z); };
  const Complex sum = complex_function("aten::log")(g, add(g, of_itself(a), of_itself(b)));
  Value infinity = g.scalar_like(a.re, INFINITY), same = g.op("Equal", a.re, b.re);
  Value both = g.op("And", same, g.op("Equal", a.re, infinity));
  Value neither = g.op("And", same, g.op("Equal", a.re, g.op("Neg", infinity)));
  const auto part = [&](Value x, Value of_sum, Value of_less) {
    return g.op("Where", both, of_sum, g.op("Where", neither, of_less, x));
  };
  return {part(rest.re, sum.re, less.re), part(rest.im, sum.im, less.im)};
}

template <class Call>
Complex log_of_sums(const Call& call) {
  GraphBuilder& g = call.g;
  Complex z = call.full("self");
  const std::vector<int64_t> axes = axes_of(call.integers("dim"), z.re);
  Value greatest = g.reduce("ReduceMax", z.re, axes, true);
  Value bounded = g.op("Less", g.op("Abs", greatest), g.scalar_like(z.re, INFINITY));
  greatest = g.op("Where", bounded, greatest, g.scalar_like(z.re, 0));
  z = complex_function("aten::exp")(g, {g.op("Sub", z.re, greatest), z.im});
  z = complex_function("aten::log")(
      g, {g.reduce("ReduceSum", z.re, axes, true), g.reduce("ReduceSum", z.im, axes, true)});
  const std::vector<Dim>& dims = *g.result().dims;
  return {g.reshape(g.op("Add", z.re, greatest), dims), g.reshape(z.im, dims)};
}

// Divides by the root of the mean of the squares, which are complex.
template <class Call>
Complex rms_norm(const Call& call) {
  GraphBuilder& g = call.g;
  const Complex z = call.full("input");
  std::vector<int64_t> axes;
  const auto count = static_cast<int64_t>(call.integers("normalized_shape").size());
  for (int64_t axis = z.re.rank() - count; axis < z.re.rank(); ++axis) axes.push_back(axis);
  const Complex square = multiply(g, z, z);
  Value mean = mean_of(g, square.re, axes, true);
  const double least = call.type == ElementType::float64 ? std::numeric_limits<double>::epsilon()
                                                         : std::numeric_limits<float>::epsilon();
  mean = g.op("Add", mean, g.scalar_like(mean, call.number("eps", least)));
  // PyTorch's sums begin with 0: those of -0, which would give the other root, are 0.
  const Formula im(g, mean_of(g, square.im, axes, true));
  const Complex scale = complex_function("aten::rsqrt")(g, {mean, Value(where(im == 0, 0, im))});
  const Complex result = multiply(g, z, scale);
  return call.is_tensor("weight") ? multiply(g, result, call["weight"]) : result;
}

Value distances(GraphBuilder& g, Complex a, Complex b, double added = 0) {
  Complex difference = add(g, a, negative(g, b));
  if (added != 0) difference.re = g.op("Add", difference.re, g.scalar_like(difference.re, added));
  return absolute(g, difference);
}

template <class Call>
Value row_distance(const Call& call, Complex a, Complex b, bool keepdim) {
  Value sizes = distances(call.g, a, b, call.number("eps", 1e-6));
  return vector_norm(call.g, sizes, call.number("p", 2), std::vector<int64_t>{-1}, keepdim);
}

template <class Call>
Complex triplet_margin_loss(const Call& call) {
  GraphBuilder& g = call.g;
  const Complex anchor = call["anchor"], like = call["positive"], unlike = call["negative"];
  Value far = row_distance(call, anchor, unlike, false);
  if (call.flag("swap")) far = g.op("Min", far, row_distance(call, like, unlike, false));
  Value near = row_distance(call, anchor, like, false);
  Value loss = g.op("Sub", g.op("Add", near, g.scalar_like(near, call.number("margin", 1))), far);
  return {reduced(g, g.op("Max", loss, g.scalar_like(loss, 0)),
                  call.integer("reduction").value_or(mean_reduction)),
          {}};
}

template <class Call>
Complex renorm(const Call& call) {
  GraphBuilder& g = call.g;
  const Complex z = call.full("self");
  const int64_t rank = z.re.rank();
  const std::vector<int64_t> others = axes_except(wrap_axis(call.integer("dim").value_or(0), rank), rank);
  Value norm = vector_norm(g, absolute(g, z), call.number("p", 2), others, true);
  return multiply(g, z, {renorm_factor(g, norm, call.number("maxnorm", 0)), {}});
}

// The base to the power of numbers from `start` to `end`, computed from the nearer end.
template <class Call>
Complex logspace(const Call& call) {
  GraphBuilder& g = call.g;
  const int64_t steps = call.integer("steps").value_or(0);
  check_constant(g, steps);
  std::vector<double> from_start, from_end;
  for (int64_t i = 0; i < steps; ++i) {
    const double part = steps == 1 ? 0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    from_start.push_back(1 - part);
    from_end.push_back(part);
  }
  const auto weighted = [&](std::string_view end, const std::vector<double>& weights) {
    return multiply(g, in_float64(g, call.full(end)),
                    {g.constant(ir::Weight::of<double>(weights, {steps})), {}});
  };
  const Complex exponents = add(g, weighted("start", from_start), weighted("end", from_end));
  Complex base = call.get("base", 10);
  if (!base.im) base.im = g.scalar_like(base.re, 0);
  const Complex result = power(g, in_float64(g, base), exponents, true);
  return {g.cast(result.re, call.type), g.cast(result.im, call.type)};
}

// Complex numbers as twice as many real ones, or the reverse.
template <class Call>
Complex viewed_as_type(const Call& call) {
  GraphBuilder& g = call.g;
  const auto& [to, dims] = g.result();
  if (!call.is_tensor("self") || !dims) g.refuse("a view of what is not a tensor, or of unknown rank");
  ir::Value* const* self = std::get_if<ir::Value*>(g.call()->find("self"));
  const ElementType from = (*self)->tensor_type().element_type;
  if (part_type(from) != part_type(to)) {
    const ElementType part = part_type(is_complex(from) ? from : to);
    g.refuse(fmt::format("a view of {} as {}; make it in two steps, through {}", name(from), name(to),
                         name(part)));
  }
  if (from == to) return call.full("self");
  if (!is_complex(to)) {
    const Complex z = call.full("self");
    return {g.reshape(g.concat({g.unsqueeze(z.re, {-1}), g.unsqueeze(z.im, {-1})}, -1), *dims), {}};
  }
  std::vector<Dim> pairs = *dims;
  pairs.emplace_back(2);
  Value value = g.reshape(call["self"].re, pairs);
  const auto part = [&](int64_t i) { return g.gather(value, g.scalar(i, ElementType::int64), -1); };
  return {part(0), part(1)};
}

}  // namespace

const std::unordered_map<std::string_view, ComplexLowering::Special>& ComplexLowering::specials() {
  using C = const Call&;
  static constexpr auto self = [](C call) { return call["self"]; };
  static constexpr auto conjugate = [](C call) {
    const Complex z = call["self"];
    return Complex{z.re, z.im ? call.g.op("Neg", z.im) : Value()};
  };
  static constexpr auto divided = [](C call) { return divide(call.g, call["self"], call["other"]); };
  static constexpr auto powered = [](C call) {
    return power(call.g, call.full("self"), call.full("exponent"), !call.is_tensor("exponent"));
  };
  static constexpr auto real = [](C call) { return Complex{call["self"].re, {}}; };
  static constexpr auto imaginary = [](C call) { return Complex{call.full("self").im, {}}; };
  static constexpr auto absolute_value = [](C call) { return Complex{absolute(call.g, call["self"]), {}}; };
  static constexpr auto equal = [](C call) {
    const Complex a = call.full("self"), b = call.full("other");
    return Complex{call.g.op("And", call.g.op("Equal", a.re, b.re), call.g.op("Equal", a.im, b.im)), {}};
  };
  static constexpr auto ones = [](C call) {
    const ir::TensorType& result = call.g.result();
    const ElementType type = part_type(result.element_type);
    const Value one = filled(call.g, *result.dims, 1, type);
    return Complex{one, is_complex(result.element_type) ? filled(call.g, *result.dims, 0, type) : Value()};
  };
  static const std::unordered_map<std::string_view, Special> table = {
      {"aten::conj", {conjugate}},
      {"aten::_conj", {conjugate}},
      {"aten::conj_physical", {conjugate}},
      {"aten::_conj_physical", {conjugate}},
      {"aten::div", {divided}},
      {"aten::divide", {divided}},
      {"aten::true_divide", {divided}},
      {"aten::real", {real}},
      {"aten::imag", {imaginary}},
      {"aten::abs", {absolute_value}},
      {"aten::absolute", {absolute_value}},
      {"aten::eq", {equal}},
      {"aten::ne", {[](C call) {
         return Complex{call.g.op("Not", equal(call).re), {}};
       }}},
      {"aten::not_equal", {[](C call) {
         return Complex{call.g.op("Not", equal(call).re), {}};
       }}},
      {"aten::isnan", {[](C call) {
         const Complex z = call.full("self");
         return Complex{call.g.op("Or", call.g.op("IsNaN", z.re), call.g.op("IsNaN", z.im)), {}};
       }}},
      {"aten::is_complex", {self}},
      {"aten::ones_like", {ones}},
      {"aten::new_ones", {ones}},
      {"aten::ones", {ones}},
      {"aten::isfinite", {[](C call) {
         return Complex{finite(call.g, call.full("self")), {}};
       }}},
      {"aten::isinf", {[](C call) {
         const Complex z = call.full("self");
         GraphBuilder& g = call.g;
         auto infinite = [&](Value x) { return g.op("Equal", g.op("Abs", x), g.scalar_like(x, INFINITY)); };
         return Complex{g.op("Or", infinite(z.re), infinite(z.im)), {}};
       }}},
      {"aten::isreal", {[](C call) {
         const Complex z = call.full("self");
         return Complex{call.g.op("Equal", z.im, call.g.scalar_like(z.im, 0)), {}};
       }}},
      {"aten::isclose", {is_close}},
      {"aten::pow", {powered}},
      {"aten::float_power", {powered}},
      {"aten::ldexp", {ldexp}},
      {"aten::logaddexp", {[](C call) { return log_of_sum(call.g, call.full("self"), call.full("other")); }}},
      {"aten::logsumexp", {log_of_sums}},
      {"aten::rms_norm", {rms_norm}},
      {"aten::dist", {[](C call) {
         Value sizes = distances(call.g, call["self"], call["other"]);
         return Complex{vector_norm(call.g, sizes, call.number("p", 2), {}, false), {}};
       }}},
      {"aten::pairwise_distance", {[](C call) {
         return Complex{row_distance(call, call["x1"], call["x2"], call.flag("keepdim")), {}};
       }}},
      {"aten::l1_loss", {[](C call) {
         Value losses = distances(call.g, call["self"], call["target"]);
         return Complex{reduced(call.g, losses, call.integer("reduction").value_or(mean_reduction)), {}};
       }}},
      {"aten::triplet_margin_loss", {triplet_margin_loss}},
      {"aten::renorm", {renorm}},
      {"aten::logspace", {logspace}},
      {"aten::prod", {product}},
      {"aten::cumprod", {cumulative_product}},
      {"aten::linalg_vander", {vander}},
      {"aten::addcmul", {[](C call) {
         // Real factors are promoted: their imaginary 0 times infinity is NaN.
         Complex value = call.get("value", 1);
         if (!value.im) value.im = call.g.scalar_like(value.re, 0);
         const Complex term = multiply(call.g, value, call.full("tensor1"));
         return add(call.g, call["self"], multiply(call.g, term, call.full("tensor2")));
       }}},
      {"aten::addcdiv", {[](C call) {
         const Complex term = multiply(call.g, call.get("value", 1), call["tensor1"]);
         return add(call.g, call["self"], divide(call.g, term, call["tensor2"]));
       }}},
      {"aten::lerp", {[](C call) {
         GraphBuilder& g = call.g;
         const Complex way = add(g, call["end"], negative(g, call["self"]));
         return add(g, call["self"], multiply(g, call["weight"], way));
       }}},
      {"aten::complex", {[](C call) {
         const std::vector<Dim>& dims = *call.g.result().dims;
         return Complex{call.g.expand(call["real"].re, dims), call.g.expand(call["imag"].re, dims)};
       }}},
      {"aten::polar", {[](C call) {
         Value size = call["abs"].re, angle = call["angle"].re;
         return Complex{call.g.op("Mul", size, call.g.op("Cos", angle)),
                        call.g.op("Mul", size, call.g.op("Sin", angle))};
       }}},
      {"aten::view.dtype", {viewed_as_type}},
      {"aten::view_as_complex", {[](C call) {
         Value pairs = call["self"].re;
         auto part = [&](int64_t i) {
           return call.g.gather(pairs, call.g.scalar(i, ElementType::int64), -1);
         };
         return Complex{part(0), part(1)};
       }}},
      {"aten::view_as_real", {[](C call) {
         const Complex z = call.full("self");
         return Complex{call.g.concat({call.g.unsqueeze(z.re, {-1}), call.g.unsqueeze(z.im, {-1})}, -1), {}};
       }}},
  };
  return table;
}

}  // namespace opbridge::lowering
