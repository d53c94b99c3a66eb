#include "builder/shape_inference.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "ir/attribute_or.h"
#include "ir/dim_expr.h"
#include "tensor/constants.h"
#include "tensor/shape.h"

namespace opbridge::builder {
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
                                             "DequantizeLinear"sv,
                                             "Dropout"sv,
                                             "Elu"sv,
                                             "Erf"sv,
                                             "EyeLike"sv,
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
                                             "QuantizeLinear"sv,
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

// The sum of all dims in one step; adding one dim after the other would take quadratic time.
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

std::optional<std::vector<int64_t>> all_static(const std::optional<std::vector<Dim>>& dims) {
  if (!dims) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dim& dim : *dims) {
    if (!dim.is_static()) return std::nullopt;
    numbers.push_back(dim.value());
  }
  return numbers;
}

// A node whose dims are inferred. Its inputs are ranked, and the first one is present.
class Node {
 public:
  Node(std::string_view op, std::span<const Value> inputs, std::span<const ir::Attribute> attributes,
       const KnownSizes& known_sizes)
      : op_(op), inputs_(inputs), attributes_(attributes), known_sizes_(known_sizes) {}

  std::optional<std::vector<Dim>> dims() const;

 private:
  using Dims = std::optional<std::vector<Dim>>;
  using Numbers = std::optional<std::vector<int64_t>>;

  template <class T>
  T attribute(std::string_view name, T fallback) const {
    return ir::attribute_or<T>(attributes_, name, std::move(fallback));
  }
  bool has_input(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  // An argument that is an input in later opsets and an attribute in earlier ones; nothing if its value is
  // unknown.
  Dims sizes(size_t input, std::string_view attribute_name) const {
    if (has_input(input)) return known_sizes_(inputs_[input]);
    const auto numbers = attribute<std::vector<int64_t>>(attribute_name, {});
    return std::vector<Dim>(numbers.begin(), numbers.end());
  }
  Numbers numbers(size_t input, std::string_view attribute_name) const {
    return all_static(sizes(input, attribute_name));
  }

  Dims transposed() const;
  Dims concatenated() const;
  Dims gathered() const;
  Dims reduced(const Numbers& axes, bool all_where_empty) const;
  Dims padded() const;
  Dims sliced() const;
  Dims reshaped() const;
  Dims range() const;
  Dims of_greatest() const;
  struct Windows {
    std::vector<int64_t> strides, dilations, pads;
  };
  std::optional<Windows> given_windows(size_t axes) const;
  Dims windows() const;
  Dims spread_windows() const;

  std::string_view op_;
  std::span<const Value> inputs_;
  std::span<const ir::Attribute> attributes_;
  const KnownSizes& known_sizes_;
};

std::optional<std::vector<Dim>> Node::transposed() const {
  const std::vector<Dim>& first = inputs_[0].dims();
  const auto permutation = attribute<std::vector<int64_t>>("perm", {});
  std::vector<Dim> dims(first.rbegin(), first.rend());
  if (permutation.empty()) return dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto index = std::ranges::find(permutation, static_cast<int64_t>(i));
    if (index == permutation.end() || permutation.size() != dims.size()) {
      throw Error(ErrorCode::invalid_argument, fmt::format("perm [{}] is not a permutation of {} axes",
                                                           fmt::join(permutation, ", "), dims.size()));
    }
    dims[static_cast<size_t>(index - permutation.begin())] = first[i];
  }
  return dims;
}

std::optional<std::vector<Dim>> Node::concatenated() const {
  std::vector<Dim> dims = inputs_[0].dims();
  const int64_t axis = wrap_axis(attribute<int64_t>("axis", 0), inputs_[0].rank());
  std::vector<Dim> sizes;
  for (Value input : inputs_) sizes.push_back(input.dim(axis));
  dims[axis] = sum_of(sizes);
  return dims;
}

std::optional<std::vector<Dim>> Node::gathered() const {
  const std::vector<Dim>&first = inputs_[0].dims(), &indices = inputs_[1].dims();
  const int64_t axis = wrap_axis(attribute<int64_t>("axis", 0), inputs_[0].rank());
  std::vector<Dim> dims(first.begin(), first.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), first.begin() + axis + 1, first.end());
  return dims;
}

std::optional<std::vector<Dim>> Node::reduced(const Numbers& axes, bool all_where_empty) const {
  if (!axes) return std::nullopt;
  const std::vector<Dim>& first = inputs_[0].dims();
  const std::vector<int64_t> wrapped = wrap_axes(*axes, inputs_[0].rank());
  const bool keeps = attribute<int64_t>("keepdims", 1) != 0, all = axes->empty() && all_where_empty;
  std::vector<Dim> dims;
  for (size_t i = 0; i < first.size(); ++i) {
    if (!all && std::ranges::find(wrapped, static_cast<int64_t>(i)) == wrapped.end()) {
      dims.push_back(first[i]);
    } else if (keeps) {
      dims.push_back(Dim(1));
    }
  }
  return dims;
}

std::optional<std::vector<Dim>> Node::padded() const {
  std::vector<Dim> dims = inputs_[0].dims();
  const Dims pads = sizes(1, "pads");
  Numbers axes = numbers(3, "axes");
  if (!pads || !axes) return std::nullopt;
  if (!has_input(3)) {
    axes->resize(dims.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (pads->size() != 2 * axes->size()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} pads are given for {} axes, which need {}",
                                                         pads->size(), axes->size(), 2 * axes->size()));
  }
  const std::vector<int64_t> wrapped = wrap_axes(*axes, inputs_[0].rank());
  for (size_t i = 0; i < wrapped.size(); ++i) {
    Dim& dim = dims[wrapped[i]];
    dim = dim + (*pads)[i] + (*pads)[wrapped.size() + i];
  }
  return dims;
}

std::optional<std::vector<Dim>> Node::sliced() const {
  std::vector<Dim> dims = inputs_[0].dims();
  const Numbers starts = numbers(1, "starts"), ends = numbers(2, "ends");
  Numbers axes = numbers(3, "axes"), steps = numbers(4, "steps");
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size()) return std::nullopt;
  if (axes->empty()) {
    axes->resize(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (steps->empty()) steps->assign(starts->size(), 1);
  if (axes->size() != starts->size() || steps->size() != starts->size()) return std::nullopt;
  for (size_t i = 0; i < axes->size(); ++i) {
    Dim& dim = dims.at(wrap_axis((*axes)[i], inputs_[0].rank()));
    const int64_t step = (*steps)[i];
    if (!dim.is_static() || step == 0) return std::nullopt;
    // Clamp the bounds to the indices of the axis and one step beyond them.
    const int64_t size = dim.value(), lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
    const auto bound = [&](int64_t given) {
      return std::clamp(given < 0 ? given + size : given, lowest, highest);
    };
    const int64_t length = bound((*ends)[i]) - bound((*starts)[i]);
    dim = Dim(std::max<int64_t>(0, (length + step - (step > 0 ? 1 : -1)) / step));
  }
  return dims;
}

std::optional<std::vector<Dim>> Node::reshaped() const {
  Dims dims = sizes(1, "shape");
  if (!dims) return std::nullopt;
  const bool copies = attribute<int64_t>("allowzero", 0) == 0;
  for (size_t i = 0; i < dims->size(); ++i) {
    if ((*dims)[i].is(-1)) return std::nullopt;
    if (copies && (*dims)[i].is(0)) (*dims)[i] = inputs_[0].dim(static_cast<int64_t>(i));
  }
  return dims;
}

std::optional<std::vector<Dim>> Node::range() const {
  const Dims start = known_sizes_(inputs_[0]), limit = known_sizes_(inputs_[1]),
             step = known_sizes_(inputs_[2]);
  if (!start || !limit || !step || !step->front().is(1)) return std::nullopt;
  const Dim count = limit->front() - start->front();
  if (count.least().value_or(-1) < 0) return std::nullopt;
  return std::vector{count};
}

std::optional<std::vector<Dim>> Node::of_greatest() const {
  const Dims count = has_input(1) ? known_sizes_(inputs_[1]) : Dims({Dim(attribute<int64_t>("k", -1))});
  if (!count || count->size() != 1) return std::nullopt;
  std::vector<Dim> dims = inputs_[0].dims();
  dims.at(wrap_axis(attribute<int64_t>("axis", -1), inputs_[0].rank())) = count->front();
  return dims;
}

// What the attributes of a convolution or a pool say; nothing if they do not fit, or do not say it.
std::optional<Node::Windows> Node::given_windows(size_t axes) const {
  if (attribute<std::string>("auto_pad", "NOTSET") != "NOTSET") return std::nullopt;
  Windows windows{attribute("strides", std::vector<int64_t>(axes, 1)),
                  attribute("dilations", std::vector<int64_t>(axes, 1)),
                  attribute("pads", std::vector<int64_t>(2 * axes, 0))};
  const bool fit = windows.strides.size() == axes && windows.dilations.size() == axes;
  return fit && windows.pads.size() == 2 * axes ? std::optional(std::move(windows)) : std::nullopt;
}

// The dims (batch, channels, spatial…) of Conv, MaxPool and similar operators.
std::optional<std::vector<Dim>> Node::windows() const {
  std::vector<Dim> dims = inputs_[0].dims();
  const bool is_convolution = op_ == "Conv";
  std::vector<int64_t> kernel = attribute<std::vector<int64_t>>("kernel_shape", {});
  if (kernel.empty() && is_convolution) {
    const std::vector<Dim>& weight = inputs_[1].dims();
    if (weight.size() < 2) return std::nullopt;
    const Numbers sizes = all_static(std::vector<Dim>(weight.begin() + 2, weight.end()));
    if (!sizes) return std::nullopt;
    kernel = *sizes;
  }
  const size_t axes = kernel.size();
  if (dims.size() != axes + 2 || attribute<int64_t>("ceil_mode", 0) != 0) return std::nullopt;
  const std::optional<Windows> given = given_windows(axes);
  if (!given) return std::nullopt;
  const auto& [strides, dilations, pads] = *given;
  if (is_convolution) dims[1] = inputs_[1].dim(0);
  for (size_t i = 0; i < axes; ++i) {
    if (strides[i] < 1) return std::nullopt;
    const Dim last = dims[i + 2] + Dim(pads[i] + pads[axes + i] - dilations[i] * (kernel[i] - 1) - 1);
    dims[i + 2] = floor_div(last, Dim(strides[i])) + Dim(1);
  }
  return dims;
}

// The dims (batch, channels, spatial…) of ConvTranspose.
std::optional<std::vector<Dim>> Node::spread_windows() const {
  std::vector<Dim> dims = inputs_[0].dims();
  const std::vector<Dim>& weight = inputs_[1].dims();
  if (dims.size() < 3 || weight.size() != dims.size()) return std::nullopt;
  const size_t axes = dims.size() - 2;
  const std::optional<Windows> given = given_windows(axes);
  const auto padding = attribute("output_padding", std::vector<int64_t>(axes, 0));
  if (!given || padding.size() != axes) return std::nullopt;
  if (!attribute<std::vector<int64_t>>("output_shape", {}).empty()) return std::nullopt;
  const auto& [strides, dilations, pads] = *given;
  dims[1] = weight[1] * Dim(attribute<int64_t>("group", 1));
  for (size_t i = 0; i < axes; ++i) {
    dims[i + 2] = (dims[i + 2] - 1) * Dim(strides[i]) + Dim(dilations[i]) * (weight[i + 2] - 1) + 1 +
                  Dim(padding[i] - pads[i] - pads[axes + i]);
  }
  return dims;
}

std::optional<std::vector<Dim>> Node::dims() const {
  const std::string_view op = op_;
  const std::vector<Dim>& first = inputs_[0].dims();
  const auto rank = static_cast<int64_t>(first.size());
  if (rank == 0 && (op == "Concat" || op == "Gather")) {
    throw Error(ErrorCode::invalid_argument, "a 0-d tensor has no axes");
  }
  if (op == "MatMul" || op == "MatMulInteger") return matmul_dims(first, inputs_[1].dims());
  if (op == "Gemm") {
    const bool trans_a = attribute<int64_t>("transA", 0) != 0, trans_b = attribute<int64_t>("transB", 0) != 0;
    return std::vector<Dim>{inputs_[0].dim(trans_a ? 1 : 0), inputs_[1].dim(trans_b ? 0 : 1)};
  }
  if (op == "Shape") {
    const int64_t start = std::clamp<int64_t>(attribute<int64_t>("start", 0), 0, rank);
    const int64_t end = std::clamp<int64_t>(attribute<int64_t>("end", rank), start, rank);
    return std::vector<Dim>{Dim(end - start)};
  }
  if (op == "Transpose") return transposed();
  if (op == "Concat") return concatenated();
  if (op == "Gather") return gathered();
  if (op == "GatherElements") return inputs_[1].dims();
  if (op == "Pad") return padded();
  if (op == "Slice") return sliced();
  if (op == "Reshape") return reshaped();
  if (op == "Range") return range();
  if (op == "TopK") return of_greatest();
  if (op == "ConstantOfShape") return known_sizes_(inputs_[0]);
  if (op == "Expand") {
    const Dims target = known_sizes_(inputs_[1]);
    return target ? Dims(broadcast_dims(first, *target)) : std::nullopt;
  }
  if (op == "ArgMax" || op == "ArgMin") return reduced(std::vector{attribute<int64_t>("axis", 0)}, false);
  if (op.starts_with("Reduce"))
    return reduced(numbers(1, "axes"), attribute<int64_t>("noop_with_empty_axes", 0) == 0);
  if (op == "Conv" || op == "MaxPool" || op == "AveragePool" || op == "LpPool") return windows();
  if (op == "ConvTranspose") return spread_windows();
  if (op.starts_with("Global") && rank > 2) {
    std::vector<Dim> dims(first.begin(), first.begin() + 2);
    dims.resize(rank, Dim(1));
    return dims;
  }
  return std::nullopt;
}

// The broadcast of two sizes, each of which may be 1.
Dim broadcast_dim(const Dim& a, const Dim& b) {
  const auto is_never_one = [](const Dim& dim) {
    return dim.is_static() ? !dim.is(1) : dim.least().value_or(0) > 1;
  };
  if (a == b || b.is(1) || is_never_one(a)) return a;
  if (a.is(1) || is_never_one(b)) return b;
  const Dim greater = max(a, b);
  if (!tensor::may_be_zero(a) && !tensor::may_be_zero(b)) return greater;
  return greater * min(min(a, b), Dim(1));  // 0 if one of them is 0
}

}  // namespace

std::vector<Dim> broadcast_dims(std::span<const Dim> a, std::span<const Dim> b) {
  return tensor::broadcast_shape(a, b, broadcast_dim);
}

void infer_dims(std::string_view op, std::span<const Value> inputs, std::span<const ir::Attribute> attributes,
                std::span<ir::TensorType> outputs, const KnownSizes& known_sizes) {
  if (inputs.empty() || outputs.empty()) return;
  const bool all_ranked = std::ranges::all_of(inputs, [](Value input) { return !input || input.ranked(); });
  if (std::ranges::find(operators_like_first, op) != operators_like_first.end()) {
    outputs[0].dims = inputs[0].type().dims;
  } else if (all_ranked && std::ranges::find(broadcasting_operators, op) != broadcasting_operators.end()) {
    std::vector<Dim> dims = inputs[0].dims();
    for (Value input : inputs.subspan(1)) dims = broadcast_dims(dims, input.dims());
    outputs[0].dims = std::move(dims);
  } else if (all_ranked && inputs[0]) {
    outputs[0].dims = Node(op, inputs, attributes, known_sizes).dims();
    if (outputs.size() > 1 && (op == "TopK" || op == "MaxPool")) outputs[1].dims = outputs[0].dims;
  }
}

void infer_found_dims(std::string_view op, std::span<const Value> inputs, std::span<ir::TensorType> outputs,
                      const std::function<Dim()>& unknown_size) {
  if (op == "NonMaxSuppression") outputs[0].dims = {unknown_size(), Dim(3)};
  if (op == "NonZero" && inputs[0].ranked())
    outputs[0].dims = {Dim(std::max<int64_t>(inputs[0].rank(), 1)), unknown_size()};
}

}  // namespace opbridge::builder
