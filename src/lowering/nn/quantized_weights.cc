// Weights that are stored as integers.
#include "builder/stage.h"
#include "ir/attribute_or.h"
#include "lowering/common.h"
#include "lowering/nn/quantization.h"
#include "tensor/constants.h"

namespace opbridge::lowering {
namespace {

std::optional<ElementType> stored_type(const GraphBuilder& g, const ir::Weight& q, const Levels& levels) {
  const bool is_byte = q.element_type == ElementType::int8 || q.element_type == ElementType::uint8;
  if (!is_byte || g.opset() < 13) return std::nullopt;
  if (g.opset() >= 21) {
    if (levels.least >= -8 && levels.greatest <= 7 && tensor::converts_exactly(q, ElementType::int4))
      return ElementType::int4;
    if (levels.least >= 0 && levels.greatest <= 15 && tensor::converts_exactly(q, ElementType::uint4))
      return ElementType::uint4;
  }
  return q.element_type;
}

// The elements that share a scale, as the operator's attributes describe them.
struct Form {
  std::vector<Dim> scale_dims;
  std::optional<int64_t> axis;        // missing for one scale
  std::optional<int64_t> block_size;  // missing if each index of `axis` has a scale
};

std::optional<Form> form_of(const GraphBuilder& g, const Blocks& blocks) {
  std::vector<int64_t> undivided, of_one, grouped;  // axes of more than one element
  for (size_t i = 0; i < blocks.size.size(); ++i) {
    const Dim &size = blocks.size[i], &count = blocks.count[i];
    if (!size.is_static() || !count.is_static()) return std::nullopt;
    if (size.is(1) && count.is(1)) continue;
    (count.is(1) ? undivided : size.is(1) ? of_one : grouped).push_back(static_cast<int64_t>(i));
  }
  if (of_one.empty() && grouped.empty()) return Form{};
  const auto sizes_at = [&](const std::vector<Dim>& sizes, int64_t axis) {
    return sizes[static_cast<size_t>(axis)];
  };
  if (grouped.empty() && of_one.size() == 1)
    return Form{{sizes_at(blocks.count, of_one[0])}, of_one[0], std::nullopt};
  const std::vector<int64_t>& along = grouped.empty() ? undivided : grouped;
  if (along.size() != 1 || (!grouped.empty() && !undivided.empty()) || g.opset() < 21) return std::nullopt;
  return Form{blocks.count, along[0], sizes_at(blocks.size, along[0]).value()};
}

bool is_zero(const ir::Weight& weight) {
  return std::ranges::all_of(weight.bytes, [](std::byte byte) { return byte == std::byte(0); });
}

}  // namespace

Blocks blocks_of(GraphBuilder& g, Value x, const std::vector<Dim>& size) {
  if (size.size() != x.dims().size()) g.refuse("block_size needs one number for each dim of the tensor");
  Blocks blocks;
  blocks.size = size;
  const auto append = [&](const Dim& dim, bool is_inside) {
    if (is_inside) blocks.inside.push_back(static_cast<int64_t>(blocks.split.size()));
    blocks.split.push_back(dim);
    blocks.kept.push_back(is_inside ? Dim(1) : dim);
  };
  for (size_t i = 0; i < size.size(); ++i) {
    const Dim& dim = x.dims()[i];
    if (size[i] == dim || size[i].is(1)) {
      append(dim, !size[i].is(1));
      blocks.count.push_back(size[i].is(1) ? dim : Dim(1));
      continue;
    }
    if (!size[i].is_static() || !mod(dim, size[i]).is(0))
      g.refuse("the size " + dim.str() + " is not known to be a multiple of the block size " + size[i].str());
    blocks.count.push_back(floor_div(dim, size[i]));
    append(blocks.count.back(), false);
    append(size[i], true);
  }
  return blocks;
}

Value inverse(GraphBuilder& g, Value scale) {
  const ElementType type = scale.element_type();
  Value real = operand(g, scale, type);
  return g.cast(g.op("Div", g.scalar_like(real, 1.0), real), type);
}

std::optional<Value> dequantize_linear(GraphBuilder& g, Value q, const Blocks& blocks, Value scale,
                                       std::optional<Value> zero, const Levels& levels) {
  if (!q.weight() || (zero && !zero->weight())) return std::nullopt;
  const std::optional<Form> form = form_of(g, blocks);
  const std::optional<ElementType> type = stored_type(g, *q.weight(), levels);
  if (!form || !type) return std::nullopt;
  if (zero && is_zero(*zero->weight())) zero.reset();
  if (zero && !tensor::converts_exactly(*zero->weight(), *type)) return std::nullopt;
  std::vector<int64_t> dims;
  for (const Dim& dim : form->scale_dims) dims.push_back(dim.value());
  std::vector<Operand> operands{BuilderStage(g).converted(q, *type, q.weight()->dims)};
  if (scale.weight()) {
    operands.emplace_back(BuilderStage(g).converted(scale, ElementType::float32, dims));
  } else {
    operands.emplace_back(g.reshape(g.cast(scale, ElementType::float32), form->scale_dims));
  }
  if (zero) operands.emplace_back(BuilderStage(g).converted(*zero, *type, dims));
  if (form->axis) operands.emplace_back(attr("axis", *form->axis));
  if (form->block_size) operands.emplace_back(attr("block_size", *form->block_size));
  return g.typed(g.op_list("DequantizeLinear", 1, std::move(operands)).front(),
                 {ElementType::float32, q.dims()});
}

std::optional<Value> gather_quantized_rows(GraphBuilder& g, Value table, Value indices) {
  const ir::Node* made = table.get()->producer;
  if (!made || made->op != "DequantizeLinear" || table.rank() != 2) return std::nullopt;
  if (std::ranges::any_of(made->inputs, [](const ir::Value* input) { return !input->weight; }))
    return std::nullopt;
  Value q = made->inputs[0], scale = made->inputs[1];
  const int64_t axis = wrap_axis(ir::attribute_or<int64_t>(*made, "axis", 1), 2),
                block = ir::attribute_or<int64_t>(*made, "block_size", 0);
  const bool has_one_scale = scale.rank() == 0, has_blocks = block > 0 && axis == 1;
  if (!has_one_scale && !has_blocks && !(block == 0 && axis == 0)) return std::nullopt;
  // As bytes: ONNX's Gather does not take integers of 4 bits.
  const ElementType byte = tensor::is_unsigned(q.element_type()) ? ElementType::uint8 : ElementType::int8;
  Value bytes = BuilderStage(g).converted(q, byte, q.weight()->dims);
  Value rows = g.cast(g.gather(bytes, indices, 0), ElementType::float32);
  const std::vector<Dim> dims = rows.dims();
  if (has_blocks) {
    std::vector<Dim> split(dims.begin(), dims.end() - 1);
    split.push_back(scale.dim(1));
    split.emplace_back(block);
    rows = g.reshape(rows, split);
  }
  const auto aligned = [&](Value parameter) {
    const Value real = BuilderStage(g).converted(parameter, ElementType::float32, parameter.weight()->dims);
    return has_one_scale ? real : g.unsqueeze(g.gather(real, indices, 0), {-1});
  };
  if (made->inputs.size() > 2) rows = g.op("Sub", rows, aligned(made->inputs[2]));
  return g.reshape(g.op("Mul", rows, aligned(scale)), dims);
}

}  // namespace opbridge::lowering
