#include "lowering/nn/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/queries.h"
#include "lowering/add.h"
#include "lowering/formula.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {

Value repeat_heads(GraphBuilder& g, Value value, const Dim& query_heads) {
  const Dim& heads = value.dim(-3);
  if (heads == query_heads) return value;
  std::vector<Dim> repeated = value.dims(), merged = value.dims();
  const auto axis = static_cast<int64_t>(repeated.size()) - 2;
  repeated.insert(repeated.begin() + axis, floor_div(query_heads, heads));
  merged[axis - 1] = query_heads;
  return g.reshape(g.expand(g.unsqueeze(value, {axis}), repeated), merged);
}

namespace {

// query @ key^T * scale + mask.
Value masked_scores(GraphBuilder& g, Value query, Value key, std::optional<Value> mask, bool is_causal,
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
  std::swap(swapped.at(key.rank() - 1), swapped.at(key.rank() - 2));
  // Scaling the query first costs less than scaling the scores.
  Value scores = g.op("MatMul", g.op("Mul", query, factor), g.transpose(key, swapped));

  std::optional<Value> kept;
  if (is_causal) {
    kept = g.op("GreaterOrEqual", g.unsqueeze(arithmetic(g, 0, 1, query.dim(-2)), {1}),
                arithmetic(g, 0, 1, key.dim(-2)));
  } else if (mask && mask->element_type() == ElementType::boolean) {
    kept = mask;
  } else if (mask) {
    scores = g.op("Add", scores, g.cast(*mask, type));
  }
  if (kept) {
    Value hidden = g.op("Where", *kept, g.scalar(0.0, type), g.scalar(-INFINITY, type));
    scores = g.op("Add", scores, hidden);
  }
  return scores;
}

template <class T>
bool all_moderate(const ir::Weight& weight) {
  return std::ranges::all_of(weight.as<T>(), [](T value) { return std::abs(value) < T(1e30); });
}

bool is_moderate(const ir::Weight& weight) {
  constexpr int64_t largest = 1 << 20;  // larger tables are not read
  if (weight.element_count() > largest) return false;
  if (weight.element_type == ElementType::float32) return all_moderate<float>(weight);
  return weight.element_type == ElementType::float64 && all_moderate<double>(weight);
}

// Whether a mask hides no key for any input: it is computed from constant tables whose numbers are too small
// for infinite sums, as relative position biases are. The search is limited; a mask that exceeds the limits
// is assumed to hide keys.
bool is_finite_table(const ir::Value* mask) {
  constexpr size_t most_values = 256, most_sums = 24;  // each sum at most doubles the greatest number
  size_t sums = 0;
  std::vector<const ir::Value*> values{mask};  // without duplicates: sums may share their terms
  for (size_t i = 0; i < values.size(); ++i) {
    if (i == most_values) return false;
    if (values[i]->weight) {
      if (!is_moderate(*values[i]->weight)) return false;
      continue;
    }
    const ir::Node* node = values[i]->producer;
    const bool is_sum = node && node->op == "Add";
    if (!node || (!is_sum && !ir::moves_elements(*node)) || (is_sum && ++sums > most_sums)) return false;
    for (const ir::Value* input : std::span(node->inputs).first(is_sum ? 2 : 1)) {
      if (std::ranges::find(values, input) == values.end()) values.push_back(input);
    }
  }
  return true;
}

// Sets to 0 the rows of the result (…, length, width) for which the mask hides every key: PyTorch's softmax
// is 0 there, ONNX's is NaN.
Value without_hidden_rows(GraphBuilder& g, Value result, Value mask) {
  if (mask.dim(-1) == Dim(0) || is_finite_table(mask.get())) return result;
  Value shown;
  if (mask.element_type() == ElementType::boolean) {
    shown = any_along(g, mask, std::vector<int64_t>{-1}, true);
  } else {
    Value greatest = g.reduce("ReduceMax", mask, {-1}, true);
    shown = g.op("Not", g.op("Equal", greatest, g.scalar(-INFINITY, mask.element_type())));
  }
  // Layers with the same mask share the expanded condition.
  return g.op("Where", g.expand(shown, result.dims()), result, g.scalar(0.0, result.element_type()));
}

// Whether ONNX's Attention (opset 23) applies. It does not broadcast, is not defined for empty dims, rounds
// the scale to float32, and multiplies query and key by the square root of the scale.
bool has_operator(GraphBuilder& g, Value query, Value key, Value value, std::optional<double> scale) {
  if (g.opset() < 23 || (scale && !(*scale > 0)) || query.element_type() == ElementType::float64)
    return false;
  for (Value tensor : {query, key, value}) {
    if (tensor.rank() != 4 || tensor.dim(0) != query.dim(0)) return false;
    if (std::ranges::find(tensor.dims(), Dim(0)) != tensor.dims().end()) return false;
  }
  return key.dim(1) == value.dim(1);
}

Value attention_operator(GraphBuilder& g, Value query, Value key, Value value, std::optional<Value> mask,
                         bool is_causal, std::optional<double> scale) {
  std::vector<Operand> operands{query, key, value};
  if (mask) {
    std::vector<Dim> dims = mask->dims();
    if (dims.size() < 2) dims.insert(dims.begin(), 2 - dims.size(), Dim(1));
    dims[dims.size() - 2] = query.dim(-2);
    dims[dims.size() - 1] = key.dim(-2);
    Value whole = dims == mask->dims() ? *mask : g.expand(*mask, dims);
    const bool boolean = whole.element_type() == ElementType::boolean;
    operands.push_back(boolean ? whole : g.cast(whole, query.element_type()));
  }
  if (is_causal) operands.push_back(attr("is_causal", 1));
  if (scale) operands.push_back(attr("scale", *scale));
  std::vector<Dim> dims = query.dims();
  dims.back() = value.dim(-1);
  return g.typed(g.op_list("Attention", 1, std::move(operands)).front(), std::move(dims));
}

}  // namespace

Value attention_by_products(GraphBuilder& g, Value query, Value key, Value value, std::optional<Value> mask,
                            bool is_causal, std::optional<double> scale) {
  Value scores = masked_scores(g, query, key, mask, is_causal, scale);
  return g.op("MatMul", g.op("Softmax", scores, attr("axis", -1)), value);
}

namespace {

// PyTorch's kernel does not check them, and reads beyond the shorter one.
void check_lengths(const GraphBuilder& g, const Value& key, const Value& value) {
  const Dim keys = key.dim(-2), values = value.dim(-2);
  if (keys.is_static() && values.is_static() && keys != values) {
    g.refuse(fmt::format("there are {} keys and {} values; give one value for each key", keys.value(),
                         values.value()));
  }
}

Value attention(GraphBuilder& g, Value query, Value key, Value value, std::optional<Value> mask,
                double dropout, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (dropout != 0) g.refuse("dropout is random; call model.eval() before the export");
  check_lengths(g, key, value);
  if (has_operator(g, query, key, value, scale)) {
    Value result = attention_operator(g, query, key, value, mask, is_causal, scale);
    return mask ? without_hidden_rows(g, result, *mask) : result;
  }
  if (enable_gqa) {
    key = repeat_heads(g, key, query.dim(-3));
    value = repeat_heads(g, value, query.dim(-3));
  }
  Value result = attention_by_products(g, query, key, value, mask, is_causal, scale);
  return mask ? without_hidden_rows(g, result, *mask) : result;
}

// The attention and its weights. Unlike the public operator it adds a boolean mask as the numbers 0 and 1.
std::array<Value, 2> attention_with_weights(GraphBuilder& g, Value query, Value key, Value value,
                                            std::optional<Value> mask, double dropout, bool is_causal,
                                            std::optional<Value> dropout_mask, std::optional<double> scale,
                                            bool enable_gqa) {
  if (dropout != 0 || dropout_mask) g.refuse("dropout is random; call model.eval() before the export");
  // The scale makes numbers of float32 of an integer or bool query; the results have its type again.
  const ElementType type =
      is_floating_point(query.element_type()) ? opmath_type(query.element_type()) : ElementType::float32;
  query = g.cast(query, type), key = g.cast(key, type), value = g.cast(value, type);
  if (mask) mask = g.cast(*mask, type);
  if (enable_gqa) {
    key = repeat_heads(g, key, query.dim(-3));
    value = repeat_heads(g, value, query.dim(-3));
  }
  Value weights = g.op("Softmax", masked_scores(g, query, key, mask, is_causal, scale), attr("axis", -1));
  if (mask) weights = without_hidden_rows(g, weights, *mask);
  return {g.cast(g.op("MatMul", weights, value), g.result(0).element_type),
          g.cast(weights, g.result(1).element_type)};
}

// attention(), and the logarithm of the sum of each row's exponentials.
std::array<Value, 2> flash_attention(GraphBuilder& g, Value query, Value key, Value value, double dropout,
                                     bool is_causal, std::optional<Value> mask, std::optional<double> scale) {
  // float16 and bfloat16 are rounded once, at the end.
  const ElementType type = g.result(1).element_type;
  query = g.cast(query, type);
  key = repeat_heads(g, g.cast(key, type), query.dim(-3));
  value = repeat_heads(g, g.cast(value, type), query.dim(-3));
  if (mask && mask->element_type() != ElementType::boolean) mask = g.cast(*mask, type);
  Value result = attention(g, query, key, value, mask, dropout, is_causal, scale, false);
  result = g.cast(result, g.result().element_type);
  Value scores = masked_scores(g, query, key, mask, is_causal, scale);
  Value greatest = g.reduce("ReduceMax", scores, {-1}, true);
  Value sum = g.reduce("ReduceSum", g.op("Exp", g.op("Sub", scores, greatest)), {-1}, false);
  return {result, g.op("Add", g.squeeze(greatest, {-1}), g.op("Log", sum))};
}

// The gradient of tensors with `heads` heads, from the gradient of repeat_heads(): the sum over each group.
Value sum_of_groups(GraphBuilder& g, Value gradient, const Dim& heads) {
  const std::vector<Dim>& dims = gradient.dims();
  const Dim query_heads = gradient.dim(-3);
  if (heads == query_heads) return gradient;
  Value groups = g.reshape(gradient, {dims[0], heads, floor_div(query_heads, heads), dims[2], dims[3]});
  return g.reduce("ReduceSum", groups, {2}, false);
}

// The gradients of query, key and value, from the logarithms of the sums of exponentials.
std::array<Value, 3> flash_attention_gradient(GraphBuilder& g, Value grad, Value query, Value key,
                                              Value value, Value out, Value logsumexp, double dropout,
                                              bool is_causal, std::optional<Value> mask,
                                              std::optional<double> scale) {
  if (dropout != 0) g.refuse("dropout is random; call model.eval() before the export");
  if (!scale) {
    if (!query.dim(-1).is_static()) g.refuse("the size of the heads is dynamic; pass scale");
    scale = 1 / std::sqrt(static_cast<double>(query.dim(-1).value()));
  }
  const ElementType type = opmath_type(query.element_type());
  const auto wide = [&](Value x) { return Formula(g, g.cast(x, type)); };
  if (mask && mask->element_type() != ElementType::boolean) mask = wide(*mask);
  const auto turned = [&](const Formula& x) {
    std::vector<int64_t> order{0, 1, 3, 2};
    return Formula(g, g.transpose(x, order));
  };
  const auto product = [](const Formula& a, const Formula& b) { return node("MatMul", a, b); };
  const auto repeated = [&](Value x) { return Formula(g, repeat_heads(g, wide(x), query.dim(-3))); };
  Formula dy = wide(grad), q = wide(query), k = repeated(key), v = repeated(value), y = wide(out);
  Formula scores(g, masked_scores(g, q, k, mask, is_causal, scale));
  Formula total(g, g.unsqueeze(wide(logsumexp), {-1}));
  Formula shares = where(scores == -INFINITY, 0, exp(scores - total));
  Formula slope = shares * (product(dy, turned(v)) - sum(dy * y, {-1}));
  Value of_keys = sum_of_groups(g, product(turned(slope), q) * *scale, key.dim(-3));
  Value of_values = sum_of_groups(g, product(turned(shares), dy), value.dim(-3));
  return {g.cast(product(slope, k) * *scale, g.result(0).element_type),
          g.cast(of_keys, g.result(1).element_type), g.cast(of_values, g.result(2).element_type)};
}

}  // namespace

void register_attention(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
     "float dropout_p=0.0, "
     "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     Since{9}, attention);
  on("aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, "
     "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, "
     "float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
     Since{9}, attention_with_weights);
  on("aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
     "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> "
     "(Tensor output, Tensor logsumexp)",
     Since{9}, flash_attention);
  on("aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, "
     "Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
     "Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
     Since{9}, flash_attention_gradient);
}

}  // namespace opbridge::lowering
