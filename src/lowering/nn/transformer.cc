// The kernels by which PyTorch runs nn.MultiheadAttention and nn.TransformerEncoderLayer in evaluation.
#include <array>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/elementwise/activation.h"
#include "lowering/linalg/linear.h"
#include "lowering/nn/normalization.h"

namespace opbridge::lowering {
namespace {

// Whether both may be the same number.
bool may_equal(const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a == b; }

// Splits the projections of query, key and value, (B, T, 3 * heads * width), into heads, (B, heads, T,
// width), and scales the query.
std::array<Value, 3> split_heads(GraphBuilder& g, Value qkv, Value bias, int64_t heads) {
  if (qkv.rank() != 3 || bias.rank() != 1)
    g.refuse("PyTorch does not check that the projections have three dims and the bias one");
  const ElementType type = qkv.element_type();
  const Dim width = floor_div(qkv.dim(2), Dim(3 * heads));
  Value x = g.op("Add", operand(g, qkv, type), operand(g, bias, type));
  x = g.reshape(x, {qkv.dim(0), qkv.dim(1), Dim(3), Dim(heads), width});
  std::vector<Value> parts = g.split(g.transpose(x, {2, 0, 3, 1, 4}), 0, std::vector{Dim(1), Dim(1), Dim(1)});
  for (Value& part : parts) part = g.squeeze(part, {0});
  parts[0] = g.op("Div", parts[0], g.op("Sqrt", g.scalar(width, parts[0].element_type())));
  for (Value& part : parts) part = g.cast(part, type);
  return {parts[0], parts[1], parts[2]};
}

// The weights and biases of linear layers.
struct Linear {
  Value weight, bias;
  Value operator()(GraphBuilder& g, Value x) const { return linear(g, x, weight, bias); }
};

struct Mask {
  std::optional<Value> value;
  std::optional<int64_t> type;
};

struct Attention {
  int64_t width = 0, heads = 0;
  Linear projections, output;
  Mask mask;

  // The attention, and its weights (B, heads, T, T).
  std::array<Value, 2> operator()(GraphBuilder& g, Value query, Value key, Value value) const;
};

// What the mask hides of scores (B, heads, T, T).
Value hidden_scores(GraphBuilder& g, const Mask& mask, Value scores) {
  Value hidden = g.cast(*mask.value, ElementType::boolean);
  if (hidden.rank() == 4) {
    for (int64_t axis = 0; axis < 4; ++axis)
      if (!may_equal(hidden.dim(axis), scores.dim(axis)))
        g.refuse("a mask of four dims has other sizes than the scores");
    return g.expand(hidden, scores.dims());
  }
  const bool is_of_keys = mask.type == 1;
  if (hidden.rank() != 2 || (!is_of_keys && mask.type != 0))
    g.refuse("a mask has two dims, with mask_type 0 or 1, or the four of the scores");
  if (!may_equal(hidden.dim(0), scores.dim(is_of_keys ? 0 : 2)) || !may_equal(hidden.dim(1), scores.dim(3)))
    g.refuse("a mask of mask_type 0 has the sizes (T, T), one of mask_type 1 (B, T)");
  return is_of_keys ? g.unsqueeze(hidden, {1, 2}) : hidden;
}

std::array<Value, 2> Attention::operator()(GraphBuilder& g, Value query, Value key, Value value) const {
  for (const Value& input : {query, key, value}) {
    if (input.rank() != 3 || !may_equal(input.dim(2), width) || !may_equal(input.dim(1), query.dim(1)))
      g.refuse("query, key and value have the sizes (B, T, embed_dim)");
  }
  if (heads < 1 || width % heads != 0) g.refuse("embed_dim is not a multiple of the number of heads");
  if (!may_equal(projections.weight.dim(0), 3 * width))
    g.refuse("qkv_weight has other sizes than (3 * embed_dim, embed_dim)");
  Value projected;
  if (query.get() == key.get() && key.get() == value.get()) {
    projected = linear(g, query, projections.weight, {});
  } else {
    const std::vector<Value> weights = g.split(projections.weight, 0, std::vector<Dim>(3, Dim(width)));
    projected = g.op("Concat",
                     std::vector{linear(g, query, weights[0], {}), linear(g, key, weights[1], {}),
                                 linear(g, value, weights[2], {})},
                     attr("axis", -1));
  }
  const auto [q, k, v] = split_heads(g, projected, projections.bias, heads);
  Value scores = g.op("MatMul", q, g.transpose(k, {0, 1, 3, 2}));
  Value weights = in_opmath_type(g, scores, [&](Value x) {
    return mask.value ? softmax_of_shown(g, x, hidden_scores(g, mask, x), -1)
                      : g.op("Softmax", x, attr("axis", -1));
  });
  Value merged = g.transpose(g.op("MatMul", weights, v), {0, 2, 1, 3});
  return {output(g, g.reshape(merged, query.dims())), weights};
}

void check_type(const GraphBuilder& g, Value x) {
  if (!is_floating_point(x.element_type())) g.refuse("the tensors are not of floating point");
  if (element_count(x).is(0)) g.refuse("the input has no elements");
}

}  // namespace

void register_transformer(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> "
     "(Tensor, Tensor, Tensor)",
     Since{9}, split_heads);
  // Without need_weights PyTorch returns None for the weights, and its shape rule an empty tensor.
  on("aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, "
     "int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, "
     "Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> "
     "(Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value query, Value key, Value value, int64_t width, int64_t heads, Value qkv_weight,
        Value qkv_bias, Value proj_weight, Value proj_bias, std::optional<Value> mask, bool need_weights,
        bool average, std::optional<int64_t> mask_type) {
       check_type(g, query);
       const Attention attention{
           width, heads, {qkv_weight, qkv_bias}, {proj_weight, proj_bias}, {mask, mask_type}};
       auto [result, weights] = attention(g, query, key, value);
       std::vector<Value> results{result};
       results.resize(g.result_count());
       if (!need_weights || results.size() == 1) return results;
       if (average) {
         const ElementType type = weights.element_type();
         weights = g.cast(g.reduce("ReduceMean", g.cast(weights, opmath_type(type)), {1}, false), type);
       }
       results.back() = weights;
       return results;
     });
  on("aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, "
     "Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, "
     "Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, "
     "Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, "
     "int? mask_type=None) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value src, int64_t width, int64_t heads, Value qkv_weight, Value qkv_bias,
        Value proj_weight, Value proj_bias, bool use_gelu, bool norm_first, double eps, Value norm_weight_1,
        Value norm_bias_1, Value norm_weight_2, Value norm_bias_2, Value ffn_weight_1, Value ffn_bias_1,
        Value ffn_weight_2, Value ffn_bias_2, std::optional<Value> mask, std::optional<int64_t> mask_type) {
       check_type(g, src);
       const Attention attention{
           width, heads, {qkv_weight, qkv_bias}, {proj_weight, proj_bias}, {mask, mask_type}};
       const Linear first{ffn_weight_1, ffn_bias_1}, second{ffn_weight_2, ffn_bias_2};
       const auto attended = [&](Value x) { return attention(g, x, x, x)[0]; };
       const auto fed_forward = [&](Value x) {
         Value inner = first(g, x);
         return second(g, use_gelu ? gelu(g, inner, "none") : g.op("Relu", inner));
       };
       const auto norm_1 = [&](Value x) {
         return layer_norm(g, x, {Dim(width)}, norm_weight_1, norm_bias_1, eps, {});
       };
       const auto norm_2 = [&](Value x) {
         return layer_norm(g, x, {Dim(width)}, norm_weight_2, norm_bias_2, eps, {});
       };
       if (norm_first) {
         Value x = g.op("Add", src, attended(norm_1(src)));
         return g.op("Add", x, fed_forward(norm_2(x)));
       }
       Value x = norm_1(g.op("Add", src, attended(src)));
       return norm_2(g.op("Add", x, fed_forward(x)));
     });
}

}  // namespace opbridge::lowering
