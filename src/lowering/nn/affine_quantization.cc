// torchao's operators. They divide a tensor into blocks; each has a scale and a zero point.
#include <cmath>
#include <map>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/nn/quantization.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

using Bound = std::optional<Scalar>;

Levels levels_of(GraphBuilder& g, ElementType type, const Bound& least, const Bound& greatest) {
  static const std::map<ElementType, Levels> ranges = {{ElementType::uint8, {0, 255}},
                                                       {ElementType::int8, {-128, 127}},
                                                       {ElementType::int16, {-0x1p15, 0x7fff}},
                                                       {ElementType::int32, {-0x1p31, 0x7fffffff}},
                                                       {ElementType::float8e4m3fn, {-448, 448}},
                                                       {ElementType::float8e4m3fnuz, {-240, 240}},
                                                       {ElementType::float8e5m2, {-57344, 57344}},
                                                       {ElementType::float8e5m2fnuz, {-57344, 57344}}};
  const auto range = ranges.find(type);
  if (range == ranges.end()) g.refuse("quantization to " + std::string(name(type)) + " is not supported");
  return {least ? least->to_double() : range->second.least,
          greatest ? greatest->to_double() : range->second.greatest};
}

Value limited(GraphBuilder& g, Value x, std::optional<double> least, std::optional<double> greatest) {
  if (least) x = in_own_type(g, "Max", x, g.number(*least));
  return greatest ? in_own_type(g, "Min", x, g.number(*greatest)) : x;
}

Value rounded(GraphBuilder& g, Value x) {
  return g.cast(g.op("Round", operand(g, x, x.element_type())), x.element_type());
}

// The extremum of each block, with a dim of 1 for each dim that is reduced.
Value extremum_of_blocks(GraphBuilder& g, bool greatest, Value x, const Blocks& blocks) {
  if (blocks.inside.empty()) g.refuse("blocks of one element have no extrema");
  Value split = g.reshape(x, blocks.split);
  return g.cast(Extremum(g, greatest, split).value(blocks.inside, true), x.element_type());
}

std::array<Value, 2> choose_qparams(GraphBuilder& g, std::optional<Value> input, const std::string& mapping,
                                    const std::vector<Dim>& block_size, ElementType target,
                                    const Bound& quant_min, const Bound& quant_max,
                                    std::optional<double> eps) {
  if (!input) g.refuse("it needs an input");
  const Levels levels = levels_of(g, target, quant_min, quant_max);
  const Blocks blocks = blocks_of(g, *input, block_size);
  const double smallest = input->element_type() == ElementType::float16 ? 0x1p-14 : 0x1p-126;
  Value least = limited(g, extremum_of_blocks(g, false, *input, blocks), {}, 0);
  Value greatest = limited(g, extremum_of_blocks(g, true, *input, blocks), 0, {});
  Value scale, zero;
  const auto divided = [&](Value x, double by) { return in_own_type(g, "Div", x, g.number(by)); };
  if (mapping == "ASYMMETRIC") {
    Value range = in_own_type(g, "Sub", greatest, least);
    scale = limited(g, divided(range, levels.greatest - levels.least), eps.value_or(smallest), {});
    zero = in_own_type(g, "Sub", g.number(levels.least), rounded(g, in_own_type(g, "Div", least, scale)));
    zero = limited(g, zero, levels.least, levels.greatest);
  } else {
    if (mapping == "SYMMETRIC") {
      Value widest = in_own_type(g, "Max", g.op("Neg", least), greatest);
      scale = divided(widest, (levels.greatest - levels.least) / 2);
    } else if (mapping == "SYMMETRIC_NO_CLIPPING_ERR") {
      scale = in_own_type(g, "Max", divided(least, levels.least), divided(greatest, levels.greatest));
    } else {
      g.refuse("the mapping type '" + mapping + "' is not supported");
    }
    scale = limited(g, scale, eps.value_or(smallest), {});
    zero =
        filled(g, scale.dims(), std::trunc((levels.greatest + levels.least + 1) / 2), scale.element_type());
  }
  const auto result = [&](Value value, size_t index) {
    return g.reshape(g.cast(value, g.result(index).element_type), *g.result(index).dims);
  };
  return {result(scale, 0), result(zero, 1)};
}

Value quantize(GraphBuilder& g, Value input, const std::vector<Dim>& block_size, Value scale,
               std::optional<Value> zero, ElementType type, const Bound& quant_min, const Bound& quant_max) {
  if (!zero) g.refuse("it needs zero points");
  const Levels levels = levels_of(g, type, quant_min, quant_max);
  const Blocks blocks = blocks_of(g, input, block_size);
  Value factor = inverse(g, g.reshape(scale, blocks.kept));
  Value level = rounded(g, in_own_type(g, "Mul", g.reshape(input, blocks.split), factor));
  level = in_own_type(g, "Add", level, g.reshape(*zero, blocks.kept));
  level = limited(g, level, levels.least, levels.greatest);
  return g.reshape(g.cast(level, type), input.dims());
}

Value dequantize(GraphBuilder& g, Value input, const std::vector<Dim>& block_size, Value scale,
                 std::optional<Value> zero, Ignored, const Bound& quant_min, const Bound& quant_max,
                 ElementType result) {
  const Levels levels = levels_of(g, input.element_type(), quant_min, quant_max);
  const Blocks blocks = blocks_of(g, input, block_size);
  if (std::optional<Value> made = dequantize_linear(g, input, blocks, scale, zero, levels))
    return g.cast(*made, result);
  Value level = g.cast(g.reshape(input, blocks.split), result);
  if (zero) level = in_own_type(g, "Sub", level, g.cast(g.reshape(*zero, blocks.kept), result));
  Value value = in_own_type(g, "Mul", level, g.reshape(scale, blocks.kept));
  return g.cast(g.reshape(value, input.dims()), result);
}

Value choose_scale_float8(GraphBuilder& g, Value x, const std::vector<Dim>& block_size, ElementType type,
                          ElementType scale_type, std::optional<double> least,
                          std::optional<double> greatest) {
  if (scale_type != ElementType::float32)
    g.refuse("scales of " + std::string(name(scale_type)) + " are not supported; use float32");
  const Levels levels = levels_of(g, type, {}, {});
  Value magnitude = extremum_of_blocks(g, true, g.op("Abs", x), blocks_of(g, x, block_size));
  magnitude = limited(g, magnitude, least, greatest);
  Value scale = in_own_type(g, "Div", magnitude, g.number(levels.greatest));
  return g.reshape(g.cast(scale, ElementType::float32), *g.result().dims);
}

// The scales. Either they broadcast with a tensor of these dims, or each belongs to one block of it.
Value spread(GraphBuilder& g, Value scale, const std::vector<Dim>& dims) {
  if (element_count(scale).is(1)) return g.reshape(scale, std::span<const Dim>());
  if (scale.rank() != static_cast<int64_t>(dims.size()))
    g.refuse("the scales must have as many dims as the tensor");
  std::vector<Dim> single, wide;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim& count = scale.dims()[i];
    single.push_back(count);
    wide.push_back(count);
    if (count.is(1) || count == dims[i]) continue;
    single.emplace_back(1);
    wide.push_back(floor_div(dims[i], count));
  }
  std::vector<Dim> joined = dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (scale.dims()[i].is(1)) joined[i] = Dim(1);
  }
  return g.reshape(g.expand(g.reshape(scale, single), wide), joined);
}

Value quantize_float8(GraphBuilder& g, Value x, Value scale, ElementType type) {
  const Levels levels = levels_of(g, type, {}, {});
  Value scaled = in_own_type(g, "Div", g.cast(x, ElementType::float32), spread(g, scale, x.dims()));
  return g.cast(limited(g, scaled, levels.least, levels.greatest), type);
}

Value dequantize_float8(GraphBuilder& g, Value x, Value scale, ElementType type) {
  Value wide = g.cast(x, ElementType::float32);
  return g.cast(in_own_type(g, "Mul", wide, spread(g, scale, x.dims())), type);
}

// self @ mat2^T with scaled columns. The weight stays 8-bit integers in the model.
Value int8pack_mm(GraphBuilder& g, Value self, Value mat2, Value scales) {
  const ElementType type = opmath_type(self.element_type());
  Value product =
      g.op("MatMul", operand(g, self, self.element_type()), g.cast(g.transpose(mat2, {1, 0}), type));
  return g.cast(g.op("Mul", product, g.cast(scales, type)), self.element_type());
}

}  // namespace

void register_affine_quantization(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("torchao::choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, "
     "ScalarType target_dtype, Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, "
     "ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False) -> "
     "(Tensor, Tensor)",
     Since{13},
     [](GraphBuilder& g, std::optional<Value> input, std::string mapping, std::vector<Dim> block_size,
        ElementType target, Bound least, Bound greatest, std::optional<double> eps, Ignored, Ignored,
        Ignored) { return choose_qparams(g, input, mapping, block_size, target, least, greatest, eps); });
  on("torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
     "ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor",
     Since{13}, quantize);
  on("torchao::dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
     "ScalarType input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6) -> "
     "Tensor",
     Since{13}, dequantize);
  on("torchao::choose_scale_float8(Tensor tensor, SymInt[] block_size, ScalarType float8_dtype=24, "
     "ScalarType scale_dtype=6, float? hp_value_lb=None, float? hp_value_ub=None) -> Tensor",
     Since{13}, choose_scale_float8);
  on("torchao::quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, "
     "ScalarType float8_dtype=24) -> Tensor",
     Since{19}, quantize_float8);
  on("torchao::dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, "
     "ScalarType output_dtype=6) -> Tensor",
     Since{19}, dequantize_float8);

  on("aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", Since{13}, int8pack_mm);
}

}  // namespace opbridge::lowering
