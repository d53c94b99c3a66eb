// Operators of complex tensors that are neither linear nor a function of one number.
#include <cmath>

#include "lowering/common.h"
#include "lowering/complex_call.h"
#include "lowering/complex_functions.h"

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

Complex slice(GraphBuilder& g, Complex z, int64_t axis, int64_t start, int64_t end) {
  return {g.slice(z.re, axis, start, end), g.slice(z.im, axis, start, end)};
}

Complex joined(GraphBuilder& g, Complex a, Complex b, int64_t axis) {
  return {g.concat({a.re, b.re}, axis), g.concat({a.im, b.im}, axis)};
}

// The tensor whose elements along `axis` are multiplied, and how many these are.
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
  for (; size > 1; size -= size / 2) {  // one half times the other; of an odd number one is left
    const int64_t half = size / 2;
    Complex products = multiply(g, slice(g, z, axis, 0, half), slice(g, z, axis, half, 2 * half));
    z = size % 2 == 0 ? products : joined(g, products, slice(g, z, axis, size - 1, size), axis);
  }
  return {g.reshape(z.re, dims), g.reshape(z.im, dims)};
}

template <class Call>
Complex cumulative_product(const Call& call) {
  GraphBuilder& g = call.g;
  auto [z, axis, size] = row_of(call);
  for (int64_t shift = 1; shift < size; shift *= 2) {
    const Complex products = multiply(g, slice(g, z, axis, shift, size), slice(g, z, axis, 0, size - shift));
    z = joined(g, slice(g, z, axis, 0, shift), products, axis);
  }
  const std::vector<Dim>& dims = *g.result().dims;
  return {g.reshape(z.re, dims), g.reshape(z.im, dims)};
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
      {"aten::pow", {[](C call) { return power(call.g, call.full("self"), call.full("exponent")); }}},
      {"aten::float_power", {[](C call) { return power(call.g, call.full("self"), call.full("exponent")); }}},
      {"aten::prod", {product}},
      {"aten::cumprod", {cumulative_product}},
      {"aten::addcmul", {[](C call) {
         const Complex term = multiply(call.g, call["tensor1"], call["tensor2"]);
         return add(call.g, call["self"], multiply(call.g, call.get("value", 1), term));
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
