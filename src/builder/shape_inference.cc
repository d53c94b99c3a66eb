#include "builder/shape_inference.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ir/dim_expr.h"
#include "tensor/constants.h"

namespace opbridge {
namespace {

using namespace std::string_view_literals;

constexpr std::array broadcasting_operators = {
    "Add"sv,        "And"sv,         "BitShift"sv, "BitwiseAnd"sv, "BitwiseOr"sv,
    "BitwiseXor"sv, "Div"sv,         "Equal"sv,    "Greater"sv,    "GreaterOrEqual"sv,
    "Less"sv,       "LessOrEqual"sv, "Max"sv,      "Min"sv,        "Mod"sv,
    "Mul"sv,        "Or"sv,          "PRelu"sv,    "Pow"sv,        "Sub"sv,
    "Sum"sv,        "Where"sv,       "Xor"sv};

constexpr std::array operators_like_first = {"Abs"sv,
                                             "Acos"sv,
                                             "Acosh"sv,
                                             "Asin"sv,
                                             "Asinh"sv,
                                             "Atan"sv,
                                             "Atanh"sv,
                                             "BatchNormalization"sv,
                                             "BitwiseNot"sv,
                                             "Cast"sv,
                                             "CastLike"sv,
                                             "Ceil"sv,
                                             "Celu"sv,
                                             "Clip"sv,
                                             "Cos"sv,
                                             "Cosh"sv,
                                             "CumSum"sv,
                                             "Dropout"sv,
                                             "Elu"sv,
                                             "Erf"sv,
                                             "Exp"sv,
                                             "Floor"sv,
                                             "Gelu"sv,
                                             "GroupNormalization"sv,
                                             "HardSigmoid"sv,
                                             "HardSwish"sv,
                                             "Hardmax"sv,
                                             "Identity"sv,
                                             "InstanceNormalization"sv,
                                             "IsInf"sv,
                                             "IsNaN"sv,
                                             "LRN"sv,
                                             "LayerNormalization"sv,
                                             "LeakyRelu"sv,
                                             "Log"sv,
                                             "LogSoftmax"sv,
                                             "Mish"sv,
                                             "Neg"sv,
                                             "Not"sv,
                                             "RMSNormalization"sv,
                                             "Reciprocal"sv,
                                             "Relu"sv,
                                             "Round"sv,
                                             "ScatterElements"sv,
                                             "ScatterND"sv,
                                             "Selu"sv,
                                             "Shrink"sv,
                                             "Sigmoid"sv,
                                             "Sign"sv,
                                             "Sin"sv,
                                             "Sinh"sv,
                                             "Softmax"sv,
                                             "Softplus"sv,
                                             "Softsign"sv,
                                             "Sqrt"sv,
                                             "Swish"sv,
                                             "Tan"sv,
                                             "Tanh"sv,
                                             "ThresholdedRelu"sv,
                                             "Trilu"sv};

template <class T>
T attribute_or(std::span<const ir::Attribute> attributes, std::string_view name, T fallback) {
  for (const ir::Attribute& attribute : attributes) {
    if (attribute.name != name) continue;
    if (const T* value = std::get_if<T>(&attribute.value)) return *value;
  }
  return fallback;
}

// At once: one after the other, the terms of a long sum would be gone over again and again.
Dim sum_of(std::span<const Dim> dims) {
  Dim constant = 0;
  std::vector<ExprPtr> terms;
  for (const Dim& dim : dims) {
    if (dim.is_static()) {
      constant = constant + dim;
    } else {
      terms.push_back(dim.expr());
    }
  }
  return terms.empty() ? constant : Dim(dim_expr::add(terms)) + constant;
}

std::vector<Dim> matmul_dims(std::span<const Dim> a, std::span<const Dim> b) {
  if (a.empty() || b.empty()) return {};
  const bool row = a.size() == 1, column = b.size() == 1;
  std::vector<Dim> dims = broadcast_dims(a.first(row ? 0 : a.size() - 2), b.first(column ? 0 : b.size() - 2));
  if (!row) dims.push_back(a[a.size() - 2]);
  if (!column) dims.push_back(b[b.size() - 1]);
  return dims;
}

std::optional<std::vector<Dim>> dims_of(std::string_view op, std::span<const Value> inputs,
                                        std::span<const ir::Attribute> attributes) {
  const std::vector<Dim>& first = inputs[0].dims();
  const auto rank = static_cast<int64_t>(first.size());
  if (rank == 0 && (op == "Concat" || op == "Gather")) {
    throw Error(ErrorCode::invalid_argument, "a 0-d tensor has no axes");
  }
  if (op == "MatMul") return matmul_dims(first, inputs[1].dims());
  if (op == "Gemm") {
    const bool trans_a = attribute_or<int64_t>(attributes, "transA", 0),
               trans_b = attribute_or<int64_t>(attributes, "transB", 0);
    return std::vector<Dim>{inputs[0].dim(trans_a ? 1 : 0), inputs[1].dim(trans_b ? 0 : 1)};
  }
  if (op == "Shape") {
    const int64_t start = std::clamp<int64_t>(attribute_or<int64_t>(attributes, "start", 0), 0, rank);
    const int64_t end = std::clamp<int64_t>(attribute_or<int64_t>(attributes, "end", rank), start, rank);
    return std::vector<Dim>{Dim(end - start)};
  }
  if (op == "Transpose") {
    const auto permutation = attribute_or<std::vector<int64_t>>(attributes, "perm", {});
    std::vector<Dim> dims(first.rbegin(), first.rend());
    if (permutation.empty()) return dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto place = std::ranges::find(permutation, static_cast<int64_t>(i));
      if (place == permutation.end() || permutation.size() != dims.size()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("perm [{}] is no order of {} axes", fmt::join(permutation, ", "), rank));
      }
      dims[static_cast<size_t>(place - permutation.begin())] = first[i];
    }
    return dims;
  }
  if (op == "Concat") {
    const int64_t axis = wrap_axis(attribute_or<int64_t>(attributes, "axis", 0), rank);
    std::vector<Dim> dims = first;
    std::vector<Dim> sizes;
    for (Value input : inputs) sizes.push_back(input.dim(axis));
    dims[axis] = sum_of(sizes);
    return dims;
  }
  if (op == "Gather") {
    const int64_t axis = wrap_axis(attribute_or<int64_t>(attributes, "axis", 0), rank);
    std::vector<Dim> dims(first.begin(), first.begin() + axis);
    dims.insert(dims.end(), inputs[1].dims().begin(), inputs[1].dims().end());
    dims.insert(dims.end(), first.begin() + axis + 1, first.end());
    return dims;
  }
  if (op == "GatherElements") return inputs[1].dims();
  return std::nullopt;
}

// Two sizes of which one may be 1.
Dim broadcast_dim(const Dim& a, const Dim& b) {
  const auto is_never_one = [](const Dim& dim) {
    return dim.is_static() ? !dim.is(1) : dim.least().value_or(0) > 1;
  };
  if (a == b || b.is(1) || is_never_one(a)) return a;
  if (a.is(1) || is_never_one(b)) return b;
  const Dim greater = max(a, b);
  if (!may_be_zero(a) && !may_be_zero(b)) return greater;
  return greater * min(min(a, b), Dim(1));  // 0 where one of them is
}

}  // namespace

std::vector<Dim> broadcast_dims(std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<Dim> dims(a.begin(), a.end());
  const size_t offset = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) dims[offset + i] = broadcast_dim(dims[offset + i], b[i]);
  return dims;
}

void infer_dims(std::string_view op, std::span<const Value> inputs, std::span<const ir::Attribute> attributes,
                std::span<ir::TensorType> outputs) {
  if (inputs.empty() || outputs.empty()) return;
  const bool all_ranked = std::ranges::all_of(inputs, [](Value input) { return !input || input.ranked(); });
  if (std::ranges::find(operators_like_first, op) != operators_like_first.end()) {
    outputs[0].dims = inputs[0].type().dims;
  } else if (all_ranked && std::ranges::find(broadcasting_operators, op) != broadcasting_operators.end()) {
    std::vector<Dim> dims = inputs[0].dims();
    for (Value input : inputs.subspan(1)) dims = broadcast_dims(dims, input.dims());
    outputs[0].dims = std::move(dims);
  } else if (all_ranked && inputs[0]) {
    outputs[0].dims = dims_of(op, inputs, attributes);
  }
}

}  // namespace opbridge
