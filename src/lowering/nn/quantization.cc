// Quantization: x becomes round(x / scale) + zero_point, clipped to [least, greatest]. PyTorch multiplies by
// 1 / scale where QuantizeLinear divides, so an element halfway between two levels may be rounded to the
// other one.
#include "lowering/nn/quantization.h"

#include <array>
#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/formula.h"
#include "lowering/reduction/reduce.h"
#include "tensor/constants.h"

namespace opbridge::lowering {
namespace {

struct Scheme {
  Value scale;                  // float32, 0-d or [channels]
  Value zero_point;             // integers of the same shape
  const ir::Weight* known;      // the zero points, if they are constant
  std::optional<int64_t> axis;  // of the channels; missing for one scale
  int64_t least, greatest;      // levels
  // The zero points are floating-point numbers, which are added before rounding, not after.
  bool has_real_zeros = false;
};

Scheme scheme_of(GraphBuilder& g, double scale, int64_t zero_point, int64_t least, int64_t greatest) {
  Value zero = g.scalar(zero_point, ElementType::int64);
  return {g.scalar(scale, ElementType::float32), zero, zero.weight(), {}, least, greatest};
}

Value integers(GraphBuilder& g, Value zero_points) {
  if (is_floating_point(zero_points.element_type())) g.refuse("zero points must be integers");
  return zero_points;
}

// PyTorch reads the first element of `scale` and of `zero_point`.
Scheme scheme_of(GraphBuilder& g, Value scale, Value zero_point, int64_t least, int64_t greatest) {
  const auto number = [&](Value value) {
    if (!element_count(value).is(1)) value = g.slice(flat(g, value), 0, 0, 1);
    return g.reshape(value, std::span<const Dim>());
  };
  if (is_floating_point(zero_point.element_type())) zero_point = g.cast(zero_point, ElementType::int64);
  Value zero = number(zero_point);
  return {g.cast(number(scale), ElementType::float32), zero, zero_point.weight(), {}, least, greatest};
}

Scheme scheme_of(GraphBuilder& g, Value x, Value scales, std::optional<Value> zero_points, int64_t axis,
                 int64_t least, int64_t greatest) {
  Value none = g.scalar(0, ElementType::int64);
  Value zeros = zero_points ? integers(g, *zero_points) : g.expand(none, scales.dims());
  const ir::Weight* known = zero_points.value_or(none).weight();
  if (x.rank() == 0) g.refuse("a tensor without dims has no channel axis");
  const int64_t channels = wrap_axis(axis, x.rank());
  return {g.cast(scales, ElementType::float32), zeros, known, channels, least, greatest};
}

// torch.fake_quantize_per_channel_affine takes floating-point zero points too.
Scheme scheme_of_channels(GraphBuilder& g, Value x, Value scales, Value zero_points, int64_t axis,
                          int64_t least, int64_t greatest) {
  if (!is_floating_point(zero_points.element_type()))
    return scheme_of(g, x, scales, zero_points, axis, least, greatest);
  Scheme scheme = scheme_of(g, x, scales, std::nullopt, axis, least, greatest);
  scheme.zero_point = zero_points;
  scheme.known = nullptr;
  scheme.has_real_zeros = true;
  return scheme;
}

Value clipped_zeros(GraphBuilder& g, Value real, int64_t least, int64_t greatest) {
  Value clipped = g.op("Clip", real, g.scalar_like(real, least), g.scalar_like(real, greatest));
  return g.cast(clipped, ElementType::int64);
}

// Learned zero points are rounded to a level.
Value learned_zeros(GraphBuilder& g, Value zero_points, int64_t least, int64_t greatest) {
  return clipped_zeros(g, g.op("Round", g.cast(zero_points, ElementType::float32)), least, greatest);
}

bool is_byte(ElementType type) { return type == ElementType::int8 || type == ElementType::uint8; }

// Whether QuantizeLinear and DequantizeLinear support the type and the zero points, which must be of that
// type; PyTorch's may be any integers.
bool is_linear(GraphBuilder& g, ElementType type, const Scheme& scheme) {
  if (!scheme.known || !tensor::converts_exactly(*scheme.known, type)) return false;
  return is_byte(type) || (g.opset() >= 21 && (type == ElementType::int16 || type == ElementType::uint16));
}

struct Range {
  ElementType type;
  int64_t least, greatest;
};
constexpr std::array<Range, 4> integer_ranges = {{{ElementType::uint8, 0, 255},
                                                  {ElementType::int8, -128, 127},
                                                  {ElementType::uint16, 0, 65535},
                                                  {ElementType::int16, -32768, 32767}}};

Value linear(GraphBuilder& g, const char* op, Value x, ElementType type, const Scheme& scheme,
             ElementType result) {
  std::vector<Operand> operands{x, scheme.scale, g.cast(scheme.zero_point, type)};
  if (scheme.axis) operands.push_back(attr("axis", *scheme.axis));
  return g.typed(g.op_list(op, 1, std::move(operands)).front(), {result, x.dims()});
}

// A parameter of the scheme in the element type of `x`, shaped to broadcast with `x`.
Value aligned_parameter(GraphBuilder& g, Value x, Value parameter, const Scheme& scheme) {
  Value real = g.cast(parameter, x.element_type());
  if (!scheme.axis) return real;
  std::vector<Dim> dims(static_cast<size_t>(x.rank()), Dim(1));
  dims[static_cast<size_t>(*scheme.axis)] = parameter.dim(0);
  return g.reshape(real, dims);
}

// The levels of `x` (float32 or float64) before clipping. The inverse of the scale is rounded to float32.
Value levels(GraphBuilder& g, Value x, const Scheme& scheme) {
  Value factor = inverse(g, g.cast(scheme.scale, ElementType::float32));
  Value scaled = g.op("Mul", x, aligned_parameter(g, x, factor, scheme));
  Value zero = aligned_parameter(g, x, scheme.zero_point, scheme);
  if (scheme.has_real_zeros) return g.op("Round", g.op("Add", scaled, zero));
  return g.op("Add", g.op("Round", scaled), zero);
}

Value in_range(GraphBuilder& g, Value levels, const Scheme& scheme) {
  return g.op("Clip", levels, g.scalar_like(levels, scheme.least), g.scalar_like(levels, scheme.greatest));
}

// PyTorch's fake quantization maps NaN, including that from a scale of 0, to the least level, as
// QuantizeLinear does.
Value in_range_or_least(GraphBuilder& g, Value levels, const Scheme& scheme) {
  return g.op("Where", g.op("IsNaN", levels), g.scalar_like(levels, scheme.least),
              in_range(g, levels, scheme));
}

// The values that `levels` (float32 or float64) stand for.
Value values_at(GraphBuilder& g, Value levels, const Scheme& scheme) {
  Value centered = g.op("Sub", levels, aligned_parameter(g, levels, scheme.zero_point, scheme));
  return g.op("Mul", centered, aligned_parameter(g, levels, scheme.scale, scheme));
}

// The levels of a constant, by PyTorch's formula: the greatest and the least element of a symmetric range are
// halfway between two levels. Missing if a value is not known at export, or NaN.
std::optional<Value> quantize_constant(GraphBuilder& g, Value input, const Scheme& scheme, ElementType type) {
  const ir::Weight *weight = input.weight(), *scale = scheme.scale.weight();
  if (!weight || !scale || !scheme.known || scheme.has_real_zeros || !is_integral(type)) return std::nullopt;
  const std::optional<ir::Weight> x = tensor::convert_weight(*weight, ElementType::float32),
                                  zero = tensor::convert_weight(*scheme.known, ElementType::int64);
  if (!x || !zero || scale->element_count() != zero->element_count()) return std::nullopt;
  const std::span<const float> elements = x->as<float>(), scales = scale->as<float>();
  size_t run = elements.size();  // consecutive elements with one scale
  if (scheme.axis) {
    run = 1;
    for (size_t i = static_cast<size_t>(*scheme.axis) + 1; i < weight->dims.size(); ++i)
      run *= static_cast<size_t>(weight->dims[i]);
  }
  std::vector<int64_t> levels(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    const size_t channel = scheme.axis ? i / run % scales.size() : 0;
    const float level = std::nearbyint(elements[i] * (1.0f / scales[channel])) +
                        static_cast<float>(zero->as<int64_t>()[channel]);
    if (std::isnan(level)) return std::nullopt;
    levels[i] = static_cast<int64_t>(
        std::clamp(level, static_cast<float>(scheme.least), static_cast<float>(scheme.greatest)));
  }
  return g.constant(*tensor::convert_weight(ir::Weight::of<int64_t>(levels, weight->dims), type));
}

Value quantize(GraphBuilder& g, Value input, const Scheme& scheme, ElementType type) {
  if (std::optional<Value> known = quantize_constant(g, input, scheme, type)) return *known;
  Value x = g.cast(input, ElementType::float32);
  const auto* range = std::ranges::find(integer_ranges, type, &Range::type);
  const bool whole =
      range != integer_ranges.end() && scheme.least <= range->least && scheme.greatest >= range->greatest;
  if (!is_linear(g, type, scheme)) return g.cast(in_range(g, levels(g, x, scheme), scheme), type);
  Value made = linear(g, "QuantizeLinear", x, type, scheme, type);
  return whole ? made : in_range(g, made, scheme);
}

// A constant whose levels have 4 bits, as int4 or uint4.
std::optional<Value> dequantize_four_bits(GraphBuilder& g, Value input, const Scheme& scheme) {
  if (!input.weight() || scheme.has_real_zeros || scheme.greatest - scheme.least > 15) return std::nullopt;
  std::vector<Dim> size = input.dims();
  if (scheme.axis) size[static_cast<size_t>(*scheme.axis)] = Dim(1);
  return dequantize_linear(g, input, blocks_of(g, input, size), scheme.scale, scheme.zero_point,
                           {static_cast<double>(scheme.least), static_cast<double>(scheme.greatest)});
}

// Returns float32.
Value dequantize(GraphBuilder& g, Value input, const Scheme& scheme) {
  if (std::optional<Value> made = dequantize_four_bits(g, input, scheme)) return *made;
  if (is_linear(g, input.element_type(), scheme))
    return linear(g, "DequantizeLinear", input, input.element_type(), scheme, ElementType::float32);
  return values_at(g, g.cast(input, ElementType::float32), scheme);
}

Value fake_quantize(GraphBuilder& g, Value self, const Scheme& scheme) {
  const ElementType result = self.element_type();
  for (const Range& range : integer_ranges) {
    if (result == ElementType::float64) break;  // QuantizeLinear computes in float32
    const bool holds = range.least <= scheme.least && scheme.greatest <= range.greatest;
    if (!holds || !is_linear(g, range.type, scheme)) continue;
    Value made = quantize(g, self, scheme, range.type);
    return g.cast(dequantize(g, made, scheme), result);
  }
  Value x = g.cast(self, opmath_type(result));
  return g.cast(values_at(g, in_range_or_least(g, levels(g, x, scheme), scheme), scheme), result);
}

// The result, and a mask of the elements that were not clipped, through which the gradient passes.
std::array<Value, 2> fake_quantize_and_mask(GraphBuilder& g, Value self, const Scheme& scheme) {
  Value all = levels(g, g.cast(self, opmath_type(self.element_type())), scheme);
  Value mask = g.op("And", g.op("GreaterOrEqual", all, g.scalar_like(all, scheme.least)),
                    g.op("LessOrEqual", all, g.scalar_like(all, scheme.greatest)));
  return {fake_quantize(g, self, scheme), mask};
}

// The gradients of the tensor, of the scale and of the zero point, which are learned.
std::vector<Value> fake_quantize_gradients(GraphBuilder& g, Value grad, Value self, Value scales,
                                           Value zero_points, Scheme scheme, double factor) {
  if (element_count(self).is(0)) return {self, scales, zero_points};
  scheme.has_real_zeros = true;  // they are added before rounding
  const Formula x(g, g.cast(self, ElementType::float32)), dy(g, g.cast(grad, ElementType::float32));
  const Formula level(g, levels(g, x, scheme)), scale(g, aligned_parameter(g, x, scheme.scale, scheme)),
      zero(g, aligned_parameter(g, x, scheme.zero_point, scheme)),
      inverse_scale(g, aligned_parameter(g, x, inverse(g, scheme.scale), scheme));
  const auto least = static_cast<double>(scheme.least), greatest = static_cast<double>(scheme.greatest);
  const Formula above = level > greatest;
  const Formula below = !(level >= least);  // also NaN
  const Formula is_clipped = below || above;
  const Formula of_scale =
      where(below, dy * (least - zero),
            where(above, dy * (greatest - zero), dy * ((level - zero) * scale - x) * inverse_scale));
  const Formula of_zero = where(is_clipped, -dy * scale, 0);
  std::vector<int64_t> axes = axes_except(scheme.axis.value_or(-1), self.rank());
  const auto result = [&](size_t index, const Formula& value) {
    const ir::TensorType& type = g.result(index);
    return g.cast(index == 0 ? Value(value) : g.reshape(sum(value, axes), *type.dims), type.element_type);
  };
  return {result(0, where(is_clipped, 0, dy)), result(1, of_scale * factor), result(2, of_zero * factor)};
}

Value dequantize_tensor(GraphBuilder& g, Value input, const Scheme& scheme, Ignored, Ignored) {
  const ElementType type = g.result().element_type;
  if (type == ElementType::float32 || is_byte(input.element_type()))
    return g.cast(dequantize(g, input, scheme), type);
  // PyTorch rounds each step to the type of the result.
  const auto rounded = [&](Value value) { return g.cast(g.cast(value, type), ElementType::float32); };
  Value zero = g.cast(scheme.zero_point, ElementType::float32);
  Value centered = rounded(g.op("Sub", rounded(input), zero));
  return g.cast(g.op("Mul", centered, scheme.scale), type);
}

Value dequantize_channels(GraphBuilder& g, Value input, const Scheme& scheme, Ignored, Ignored) {
  // PyTorch subtracts integers, which may wrap around.
  const ElementType zeros = scheme.zero_point.element_type();
  const bool is_exact =
      (size_of(input.element_type()) < 4 && size_of(zeros) >= 4) || !is_integral(input.element_type());
  if (is_exact) return g.cast(dequantize(g, input, scheme), g.result().element_type);
  std::vector<Dim> dims(static_cast<size_t>(input.rank()), Dim(1));
  dims[static_cast<size_t>(*scheme.axis)] = scheme.scale.dim(0);
  Value centered = in_own_type(g, "Sub", input, g.reshape(scheme.zero_point, dims));
  Value value = in_own_type(g, "Mul", centered, g.reshape(scheme.scale, dims));
  return g.cast(value, g.result().element_type);
}

// Calls `function` with one scale and zero point: numbers, or tensors of one element.
template <auto function, class Scale, class ZeroPoint, class... More>
auto per_tensor(GraphBuilder& g, Value x, Scale scale, ZeroPoint zero_point, int64_t least, int64_t greatest,
                More... more) {
  return function(g, x, scheme_of(g, scale, zero_point, least, greatest), more...);
}

template <auto function>
auto per_channel_of_any(GraphBuilder& g, Value x, Value scales, Value zero_points, int64_t axis,
                        int64_t least, int64_t greatest) {
  return function(g, x, scheme_of_channels(g, x, scales, zero_points, axis, least, greatest));
}

template <auto function, class ZeroPoints, class... More>
auto per_channel(GraphBuilder& g, Value x, Value scales, ZeroPoints zero_points, int64_t axis, int64_t least,
                 int64_t greatest, More... more) {
  return function(g, x, scheme_of(g, x, scales, zero_points, axis, least, greatest), more...);
}

std::array<Value, 2> where_enabled(GraphBuilder& g, Value self, const Scheme& scheme, Value enabled) {
  const auto [result, mask] = fake_quantize_and_mask(g, self, scheme);
  // PyTorch reads it as an integer: 0.5 is off.
  Value on = g.reshape(enabled, std::span<const Dim>());
  if (is_floating_point(on.element_type())) on = g.cast(on, ElementType::int64);
  on = g.cast(on, ElementType::boolean);
  return {g.op("Where", on, result, self), g.op("Or", g.op("Not", on), mask)};
}

// For a disabled observer: the observer's state does not change.
std::array<Value, 2> fused_fake_quantize(GraphBuilder& g, Value self, Ignored, Value enabled, Ignored,
                                         Ignored, Value scale, Value zero_point, Ignored, int64_t least,
                                         int64_t greatest, int64_t axis, bool by_channel, Ignored) {
  return where_enabled(g, self,
                       by_channel ? scheme_of(g, self, scale, zero_point, axis, least, greatest)
                                  : scheme_of(g, scale, zero_point, least, greatest),
                       enabled);
}

template <class... Arguments>
auto first_of(std::array<Value, 2> (*function)(GraphBuilder&, Arguments...)) {
  return [function](GraphBuilder& g, Arguments... arguments) { return function(g, arguments...)[0]; };
}

std::vector<Value> fused_functional(GraphBuilder& g, Value self, Ignored, Value enabled, Value running_min,
                                    Value running_max, Value scale, Value zero_point, Ignored, int64_t least,
                                    int64_t greatest, int64_t axis, bool by_channel, Ignored) {
  const auto [result, mask] = fused_fake_quantize(g, self, {}, enabled, {}, {}, scale, zero_point, {}, least,
                                                  greatest, axis, by_channel, {});
  return {result, mask, running_min, running_max, scale, zero_point};
}

// The least and the greatest level are tensors of one element.
Value quantize_between(GraphBuilder& g, Value input, Value scale, Value zero_point, Value least,
                       Value greatest, ElementType type) {
  const auto known = [](Value bound) -> std::optional<int64_t> {
    const auto weight =
        bound.weight() ? tensor::convert_weight(*bound.weight(), ElementType::int64) : std::nullopt;
    return weight ? std::optional(weight->as<int64_t>()[0]) : std::nullopt;
  };
  const std::optional<int64_t> first = known(least), last = known(greatest);
  if (first && last) return quantize(g, input, scheme_of(g, scale, zero_point, *first, *last), type);
  Value level = levels(g, g.cast(input, ElementType::float32), scheme_of(g, scale, zero_point, 0, 0));
  const auto bound = [&](Value value) {
    return g.reshape(g.cast(value, ElementType::float32), std::span<const Dim>());
  };
  return g.cast(g.op("Min", g.op("Max", level, bound(least)), bound(greatest)), type);
}

Value int_mm(GraphBuilder& g, Value self, Value mat2) { return g.op("MatMulInteger", self, mat2); }

}  // namespace

void register_quantization(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, "
     "int quant_max) -> Tensor",
     Since{13}, per_tensor<fake_quantize, double, int64_t>);
  on("aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
     "int quant_min, int quant_max) -> Tensor",
     Since{13}, per_tensor<fake_quantize, Value, Value>);
  on("aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, "
     "int quant_min, int quant_max) -> Tensor",
     Since{13}, per_channel_of_any<fake_quantize>);
  on("aten::_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, "
     "int quant_min, int quant_max, float grad_factor=1.) -> Tensor",
     Since{13},
     [](GraphBuilder& g, Value self, Value scale, Value zero_point, int64_t least, int64_t greatest,
        Ignored) {
       zero_point = learned_zeros(g, zero_point, least, greatest);
       return fake_quantize(g, self, scheme_of(g, scale, zero_point, least, greatest));
     });
  on("aten::_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, "
     "int axis, int quant_min, int quant_max, float grad_factor=1.) -> Tensor",
     Since{13},
     [](GraphBuilder& g, Value self, Value scales, Value zero_points, int64_t axis, int64_t least,
        int64_t greatest, Ignored) {
       zero_points = learned_zeros(g, zero_points, least, greatest);
       return fake_quantize(g, self, scheme_of(g, self, scales, zero_points, axis, least, greatest));
     });
  on("aten::_fake_quantize_learnable_per_tensor_affine_backward(Tensor grad, Tensor self, Tensor scale, "
     "Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.) -> (Tensor, Tensor, Tensor)",
     Since{11},
     [](GraphBuilder& g, Value grad, Value self, Value scale, Value zero_point, int64_t least,
        int64_t greatest, double factor) {
       // Unlike the forward kernel, this one adds 1/2 and rounds towards 0.
       Value real = g.cast(zero_point, ElementType::float32);
       Value zero = clipped_zeros(g, g.op("Add", real, g.scalar_like(real, 0.5)), least, greatest);
       return fake_quantize_gradients(g, grad, self, scale, zero_point,
                                      scheme_of(g, scale, zero, least, greatest), factor);
     });
  on("aten::_fake_quantize_learnable_per_channel_affine_backward(Tensor grad, Tensor self, Tensor scale, "
     "Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.) -> "
     "(Tensor, Tensor, Tensor)",
     Since{11},
     [](GraphBuilder& g, Value grad, Value self, Value scales, Value zero_points, int64_t axis, int64_t least,
        int64_t greatest, double factor) {
       Value zeros = learned_zeros(g, zero_points, least, greatest);
       return fake_quantize_gradients(g, grad, self, scales, zero_points,
                                      scheme_of(g, self, scales, zeros, axis, least, greatest), factor);
     });
  on("aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, "
     "int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
     Since{13}, per_tensor<fake_quantize_and_mask, double, int64_t>);
  on("aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, "
     "int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
     Since{13}, per_channel_of_any<fake_quantize_and_mask>);
  on("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, "
     "Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> "
     "(Tensor output, Tensor mask)",
     Since{13},
     [](GraphBuilder& g, Value self, Value scale, Value zero_point, Value enabled, int64_t least,
        int64_t greatest) {
       return where_enabled(g, self, scheme_of(g, scale, zero_point, least, greatest), enabled);
     });
  const std::string fused =
      "(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min, "
      "Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int "
      "quant_min, "
      "int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> ";
  on("aten::fused_moving_avg_obs_fake_quant" + fused + "Tensor", Since{13}, first_of(fused_fake_quantize));
  on("aten::_fused_moving_avg_obs_fq_helper" + fused + "(Tensor output, Tensor mask)", Since{13},
     fused_fake_quantize);

  on("aten::_fused_moving_avg_obs_fq_helper_functional(Tensor self, Tensor observer_on, "
     "Tensor fake_quant_on, Tensor running_min, Tensor running_max, Tensor scale, Tensor zero_point, "
     "float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, "
     "bool symmetric_quant=False) -> (Tensor output, Tensor mask, Tensor running_min_out, "
     "Tensor running_max_out, Tensor scale_out, Tensor zero_point_out)",
     Since{13}, fused_functional);

  on("quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, "
     "int quant_max, ScalarType dtype) -> Tensor",
     Since{13}, per_tensor<quantize, double, int64_t, ElementType>);
  on("quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
     "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     Since{13}, per_tensor<quantize, Value, Value, ElementType>);
  on("quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
     "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     Since{13}, per_channel<quantize, Value, ElementType>);
  on("quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, "
     "int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     Since{13}, per_tensor<dequantize_tensor, double, int64_t, Ignored, Ignored>);
  on("quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
     "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     Since{13}, per_tensor<dequantize_tensor, Value, Value, Ignored, Ignored>);
  on("quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, "
     "int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     Since{13}, per_channel<dequantize_channels, std::optional<Value>, Ignored, Ignored>);
  on("quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, "
     "Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor",
     Since{13}, quantize_between);
  on("quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, "
     "Tensor quant_min, Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     Since{13},
     [](GraphBuilder& g, Value input, Value scale, Value zero_point, Ignored, Ignored, Ignored, Ignored) {
       return dequantize_tensor(g, input, scheme_of(g, scale, zero_point, INT32_MIN, INT32_MAX), {}, {});
     });
  on("quantized_decomposed::fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, "
     "int axis, int quant_min, int quant_max) -> Tensor",
     Since{13}, per_channel<fake_quantize, Value>);

  on("aten::_int_mm(Tensor self, Tensor mat2) -> Tensor", Since{10}, int_mm);
}

}  // namespace opbridge::lowering
