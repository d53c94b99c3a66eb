// The operators of quantized_decomposed that choose scales from the values, and those with a scale for each
// token (row) or each group of a row's elements.
#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/nn/quantization.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

constexpr double float32_eps = 0x1p-23;

Value binary(GraphBuilder& g, const char* op, Value a, double b) {
  return in_own_type(g, op, a, g.number(b));
}

Value rounded(GraphBuilder& g, Value x) {
  return g.cast(g.op("Round", operand(g, x, x.element_type())), x.element_type());
}

// The least value, at most 0, or the greatest, at least 0.
Value extremum(GraphBuilder& g, bool greatest, Value x, const Axes& axes, bool keepdim) {
  Value value = g.cast(Extremum(g, greatest, x).value(axes, keepdim), x.element_type());
  return binary(g, greatest ? "Max" : "Min", value, 0);
}

std::array<Value, 2> as_declared(GraphBuilder& g, Value scale, Value zero) {
  const auto result = [&](Value value, size_t index) {
    return g.reshape(g.cast(value, g.result(index).element_type), *g.result(index).dims);
  };
  return {result(scale, 0), result(zero, 1)};
}

std::array<Value, 2> choose_qparams(GraphBuilder& g, bool symmetric, Value x, int64_t quant_min,
                                    int64_t quant_max, double eps, ElementType type) {
  const auto least = static_cast<double>(quant_min), greatest = static_cast<double>(quant_max);
  Value low = extremum(g, false, x, {}, false), high = extremum(g, true, x, {}, false);
  // PyTorch promotes scales to float32, the type of the least scale.
  const auto limited = [&](Value scale) {
    return g.op("Max", g.cast(scale, ElementType::float32), g.scalar(eps, ElementType::float32));
  };
  if (symmetric) {
    Value widest = in_own_type(g, "Max", g.op("Neg", low), high);
    Value zero = g.scalar(type == ElementType::uint8 ? 128 : 0, ElementType::int64);
    return as_declared(g, limited(binary(g, "Div", widest, (greatest - least) / 2)), zero);
  }
  Value scale = limited(binary(g, "Div", in_own_type(g, "Sub", high, low), greatest - least));
  Value steps = rounded(g, g.op("Div", g.cast(low, ElementType::float32), scale));
  Value zero = g.op("Sub", g.scalar(quant_min, ElementType::int32), g.cast(steps, ElementType::int32));
  zero = g.op("Clip", zero, g.scalar(quant_min, ElementType::int32), g.scalar(quant_max, ElementType::int32));
  return as_declared(g, scale, zero);
}

std::array<Value, 2> choose_qparams_per_token(GraphBuilder& g, Value x, ElementType type) {
  if (type != ElementType::int8) g.refuse("PyTorch supports only int8 here");
  const std::vector<int64_t> last{-1};
  Value widest = g.cast(Extremum(g, true, g.op("Abs", x)).value(last, true), x.element_type());
  if (x.element_type() == ElementType::float16) widest = g.cast(widest, ElementType::float32);
  Value scale = binary(g, "Div", binary(g, "Max", widest, 1e-5), 127);
  return as_declared(g, scale, filled(g, scale.dims(), 0, scale.element_type()));
}

// The scales or zero points of choose_qparams_per_token as PyTorch computes them: its shape rule declares
// float64 and int64, but its kernel keeps the type of the input.
Value as_computed(Value parameter) {
  const ir::Node* made = parameter.get()->producer;
  const bool is_declared =
      made && made->op == "Cast" && made->source.op == "quantized_decomposed::choose_qparams_per_token";
  return is_declared ? Value(made->inputs[0]) : parameter;
}

std::array<Value, 2> choose_qparams_per_token_asymmetric(GraphBuilder& g, Value x, Ignored) {
  const std::vector<int64_t> last{-1};
  Value low = extremum(g, false, x, last, true), high = extremum(g, true, x, last, true);
  Value scale = binary(g, "Max", binary(g, "Div", in_own_type(g, "Sub", high, low), 255), float32_eps);
  Value from_low = in_own_type(g, "Div", low, scale), from_high = in_own_type(g, "Div", high, scale);
  Value errors = in_own_type(g, "Add", binary(g, "Add", from_low, -128), binary(g, "Add", from_high, 127));
  const auto minus = [&](double level, Value steps) { return in_own_type(g, "Sub", g.number(level), steps); };
  Value zero = g.op("Where", g.op("Greater", errors, g.scalar_like(errors, 0)), minus(-128, from_low),
                    minus(127, from_high));
  zero = rounded(g, binary(g, "Min", binary(g, "Max", zero, -128), 127));
  return as_declared(g, scale, zero);
}

// The levels of x. The scales and zero points broadcast with x.
Value levels(GraphBuilder& g, Value x, Value scale, Value zero, int64_t least, int64_t greatest,
             ElementType type) {
  Value level = in_own_type(g, "Mul", x, inverse(g, scale));
  level = rounded(g, in_own_type(g, "Add", level, zero));
  level = binary(g, "Max", level, static_cast<double>(least));
  return g.cast(binary(g, "Min", level, static_cast<double>(greatest)), type);
}

Value quantize_per_token(GraphBuilder& g, Value x, Value scales, Value zeros, int64_t least, int64_t greatest,
                         ElementType type) {
  return levels(g, x, as_computed(scales), as_computed(zeros), least, greatest, type);
}

Value dequantize_per_token(GraphBuilder& g, Value q, Value scales, Value zeros, Ignored, Ignored, Ignored,
                           ElementType type) {
  Value centered = in_own_type(g, "Sub", q, as_computed(zeros));
  return g.cast(in_own_type(g, "Mul", centered, as_computed(scales)), type);
}

Blocks groups_of(GraphBuilder& g, Value x, Value scales, int64_t size) {
  const Dim& width = x.dim(-1);
  if (width.is_static() && size > width.value() && scales.dim(-1).is(1)) size = width.value();
  return blocks_of(g, x, {Dim(1), Dim(size)});
}

Value quantize_groups(GraphBuilder& g, Value x, Value scales, Value zeros, int64_t least, int64_t greatest,
                      ElementType type, int64_t size) {
  const Blocks blocks = groups_of(g, x, scales, size);
  Value made = levels(g, g.reshape(x, blocks.split), g.reshape(scales, blocks.kept),
                      g.reshape(zeros, blocks.kept), least, greatest, type);
  return g.reshape(made, x.dims());
}

Value dequantize_groups(GraphBuilder& g, Value q, Value scales, std::optional<Value> zeros, int64_t least,
                        int64_t greatest, Ignored, int64_t size, ElementType type) {
  const Blocks blocks = groups_of(g, q, scales, size);
  const Levels range{static_cast<double>(least), static_cast<double>(greatest)};
  // With zero points of few bits, PyTorch's difference wraps around.
  if (!zeros || size_of(zeros->element_type()) >= 4) {
    if (const std::optional<Value> made = dequantize_linear(g, q, blocks, scales, zeros, range))
      return g.cast(*made, type);
  }
  Value value = g.reshape(q, blocks.split);
  if (zeros) value = in_own_type(g, "Sub", value, g.reshape(*zeros, blocks.kept));
  value = in_own_type(g, "Mul", value, g.reshape(scales, blocks.kept));
  return g.cast(g.reshape(value, q.dims()), type);
}

}  // namespace

void register_dynamic_quantization(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const bool symmetric : {false, true}) {
    on(std::string("quantized_decomposed::choose_qparams") + (symmetric ? "_symmetric" : "") +
           ".tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> "
           "(Tensor, Tensor)",
       Since{13},
       [symmetric](GraphBuilder& g, Value x, int64_t least, int64_t greatest, double eps, ElementType type) {
         return choose_qparams(g, symmetric, x, least, greatest, eps, type);
       });
  }
  on("quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
     Since{13}, choose_qparams_per_token);
  for (const char* name :
       {"_choose_qparams_per_token_asymmetric_impl", "choose_qparams_per_token_asymmetric"}) {
    on(std::string("quantized_decomposed::") + name + "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
       Since{13}, choose_qparams_per_token_asymmetric);
  }
  on("quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
     "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     Since{13}, quantize_per_token);
  on("quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
     "int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor",
     Since{13}, dequantize_per_token);
  on("quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, "
     "int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor",
     Since{13}, quantize_groups);
  on("quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, "
     "int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor",
     Since{13}, dequantize_groups);
  on("quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor", Since{9},
     [](GraphBuilder& g, Value input, ElementType type) { return g.cast(input, type); });
}

}  // namespace opbridge::lowering
