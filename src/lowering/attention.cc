#include <cmath>
#include <numeric>

#include "lowering/add.h"

namespace opbridge::lowering {
namespace {

// Grouped queries: each key and value head serves several query heads in a row. (…, heads, length, width)
Value repeat_heads(GraphBuilder& g, Value value, const Dim& query_heads) {
  const Dim& heads = value.dim(-3);
  if (heads == query_heads) return value;
  std::vector<Dim> repeated = value.dims(), merged = value.dims();
  const auto axis = static_cast<int64_t>(repeated.size()) - 2;
  repeated.insert(repeated.begin() + axis, floor_div(query_heads, heads));
  merged[axis - 1] = query_heads;
  return g.reshape(g.expand(g.unsqueeze(value, {axis}), repeated), merged);
}

// 0, 1, 2, … as far as `length`.
Value positions(GraphBuilder& g, const Dim& length) {
  if (length.is_static()) {
    std::vector<int64_t> values(static_cast<size_t>(length.value()));
    std::iota(values.begin(), values.end(), 0);
    return g.ints(values);
  }
  Value result = g.op("Range", g.size(Dim(0)), g.size(length), g.size(Dim(1)));
  result.get()->type = ir::TensorType{ElementType::int64, std::vector{length}};
  return result;
}

// query @ key^T * scale + mask.
struct Scores {
  Value values;
  std::optional<Value> kept;  // bool: which of them count
};

Scores masked_scores(GraphBuilder& g, Value query, Value key, std::optional<Value> mask, bool is_causal,
                     std::optional<double> scale) {
  const ElementType type = query.element_type();
  Value factor;
  if (scale || query.dim(-1).is_static()) {
    factor = g.scalar(scale ? *scale : 1 / std::sqrt(static_cast<double>(query.dim(-1).value())), type);
  } else {
    factor = g.op("Reciprocal", g.op("Sqrt", g.cast(g.dim_of(query, -1), type)));
  }
  std::vector<int64_t> swapped(key.rank());
  for (int64_t axis = 0; axis < key.rank(); ++axis) swapped[axis] = axis;
  std::swap(swapped[key.rank() - 1], swapped[key.rank() - 2]);
  // Scaling the query first costs less than scaling the scores.
  Value scores = g.op("MatMul", g.op("Mul", query, factor), g.transpose(key, swapped));

  std::optional<Value> kept;
  if (is_causal) {
    kept = g.op("GreaterOrEqual", g.unsqueeze(positions(g, query.dim(-2)), {1}), positions(g, key.dim(-2)));
  } else if (mask && mask->element_type() == ElementType::boolean) {
    kept = mask;
  } else if (mask) {
    scores = g.op("Add", scores, g.cast(*mask, type));
  }
  if (kept) {
    Value hidden = g.op("Where", *kept, g.scalar(0.0, type), g.scalar(-INFINITY, type));
    scores = g.op("Add", scores, hidden);
  }
  return {scores, kept};
}

// softmax(scores) @ value, with zeros where a row's mask leaves nothing.
Value attention(GraphBuilder& g, Value query, Value key, Value value, std::optional<Value> mask,
                double dropout, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (dropout != 0) g.refuse("dropout is random; call model.eval() before the export");
  if (enable_gqa) {
    key = repeat_heads(g, key, query.dim(-3));
    value = repeat_heads(g, value, query.dim(-3));
  }
  const ElementType type = query.element_type();
  const Scores scores = masked_scores(g, query, key, mask, is_causal, scale);
  Value weights = g.op("Softmax", scores.values, attr("axis", -1));
  // A row without any score is 0/0 in Softmax, and 0 in PyTorch. (A causal row always has its first.)
  if (scores.kept && !is_causal) {
    weights = g.op("Where", *scores.kept, weights, g.scalar(0.0, type));
  } else if (mask) {
    weights = g.op("Where", g.op("IsNaN", weights), g.scalar(0.0, type), weights);
  }
  return g.op("MatMul", weights, value);
}

// The same, and the logarithm of the sum of each row's exponentials.
std::array<Value, 2> flash_attention(GraphBuilder& g, Value query, Value key, Value value, double dropout,
                                     bool is_causal, std::optional<Value> mask, std::optional<double> scale) {
  Value result = attention(g, query, key, value, mask, dropout, is_causal, scale, false);
  const ElementType type = g.result(1).element_type;
  Value scores = g.cast(masked_scores(g, query, key, mask, is_causal, scale).values, type);
  Value greatest = g.reduce("ReduceMax", scores, {-1}, true);
  Value sum = g.reduce("ReduceSum", g.op("Exp", g.op("Sub", scores, greatest)), {-1}, false);
  return {result, g.op("Add", g.squeeze(greatest, {-1}), g.op("Log", sum))};
}

}  // namespace

void register_attention(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
     "float dropout_p=0.0, "
     "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     Since{13}, attention);
  on("aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
     "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> "
     "(Tensor output, Tensor logsumexp)",
     Since{13}, flash_attention);
}

}  // namespace opbridge::lowering
