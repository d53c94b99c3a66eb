// Common operators: those whose form changed between opsets, and shortcuts for operators that would do
// nothing.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "builder/constant_limit.h"
#include "tensor/constants.h"
#include "tensor/shape.h"

namespace opbridge {
namespace {

void set_type(Value value, ElementType element_type, std::vector<Dim> dims) {
  value.get()->type = ir::TensorType{element_type, std::move(dims)};
}

// The size of a slice with constant bounds of an axis of constant size; nothing if any of these is not
// constant.
std::optional<Dim> sliced_size(const Dim& size, Value start, Value end, int64_t step) {
  const auto is_one = [](Value value) { return value.weight() && value.weight()->as<int64_t>().size() == 1; };
  if (!size.is_static() || !is_one(start) || !is_one(end) || step < 1) return std::nullopt;
  auto bound = [&](Value value) {
    const int64_t given = value.weight()->as<int64_t>().front();
    return std::clamp<int64_t>(given < 0 ? given + size.value() : given, 0, size.value());
  };
  return Dim(std::max<int64_t>(0, (bound(end) - bound(start) + step - 1) / step));
}

// A tensor without elements: one of `dims` is 0.
Value without_elements(GraphBuilder& g, std::span<const Dim> dims, ElementType type) {
  // ConstantOfShape makes bfloat16 from opset 20 on.
  const ElementType made = type == ElementType::bfloat16 ? ElementType::float32 : type;
  ir::Weight zero = tensor::scalar_weight(false, made);
  zero.dims = {1};
  return g.cast(g.op("ConstantOfShape", g.sizes(dims), attr("value", std::move(zero))), type);
}

}  // namespace

Value GraphBuilder::cast(Value value, ElementType to) {
  if (value.element_type() == to) return value;
  if (is_complex(to) || is_complex(value.element_type()))
    refuse("complex numbers have no counterpart in ONNX; compute with real and imaginary part");
  constexpr size_t most_folded_bytes = 256;
  if (value.weight() && value.weight()->bytes.size() <= most_folded_bytes) {
    if (std::optional<ir::Weight> folded = tensor::convert_weight(*value.weight(), to))
      return constant(std::move(*folded));
  }
  return op("Cast", value, attr("to", to));
}

Value GraphBuilder::reshape(Value value, std::span<const Dim> dims) {
  if (value.ranked() && std::ranges::equal(value.dims(), dims)) return value;
  const std::span<const Dim> from = value.ranked() ? std::span(value.dims()) : std::span<const Dim>();
  const auto is_zero = [](const Dim& dim) { return dim.is(0); };
  Value result;
  if (const auto shape = tensor::constant_reshape(from, dims)) {
    result = op("Reshape", value, ints(*shape));
  } else if (opset_ >= 14 && tensor::may_be_empty(dims)) {
    result = op("Reshape", value, sizes(dims), attr("allowzero", 1));
  } else if (std::ranges::none_of(dims, is_zero)) {
    result = op("Reshape", value, sizes(dims));
  } else {
    result =
        without_elements(*this, dims, value.element_type());  // before opset 14, 0 copies the input's dim
  }
  set_type(result, value.element_type(), {dims.begin(), dims.end()});
  return result;
}

Value GraphBuilder::transpose(Value value, std::vector<int64_t> permutation) {
  std::vector<int64_t> identity(permutation.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (value.type().ranked() && value.rank() != static_cast<int64_t>(permutation.size()))
    throw Error(ErrorCode::invalid_argument, fmt::format("a permutation of {} axes for a tensor of rank {}",
                                                         permutation.size(), value.rank()));
  if (permutation == identity) return value;
  return op("Transpose", value, attr("perm", std::move(permutation)));
}

Value GraphBuilder::unsqueeze(Value value, std::vector<int64_t> axes) {
  if (axes.empty()) return value;
  std::vector<Dim> dims = value.dims();
  axes = wrap_axes(axes, static_cast<int64_t>(dims.size() + axes.size()));
  std::ranges::sort(axes);
  if (const auto twice = std::ranges::adjacent_find(axes); twice != axes.end())
    throw Error(ErrorCode::invalid_argument, fmt::format("axis {} is inserted twice", *twice));
  for (int64_t axis : axes) dims.insert(dims.begin() + axis, Dim(1));
  Value result =
      opset_ >= 13 ? op("Unsqueeze", value, ints(axes)) : op("Unsqueeze", value, attr("axes", axes));
  set_type(result, value.element_type(), std::move(dims));
  return result;
}

Value GraphBuilder::squeeze(Value value, std::vector<int64_t> axes) {
  if (axes.empty()) return value;
  axes = wrap_axes(axes, value.rank());
  std::vector<Dim> dims;
  for (int64_t axis = 0; axis < value.rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) dims.push_back(value.dim(axis));
  }
  Value result = opset_ >= 13 ? op("Squeeze", value, ints(axes)) : op("Squeeze", value, attr("axes", axes));
  set_type(result, value.element_type(), std::move(dims));
  return result;
}

Value GraphBuilder::expand(Value value, std::span<const Dim> dims) {
  if (value.ranked() && std::ranges::equal(value.dims(), dims)) return value;
  Value result = op("Expand", value, sizes(dims));
  set_type(result, value.element_type(), {dims.begin(), dims.end()});
  return result;
}

Value GraphBuilder::concat(std::vector<Value> values, int64_t axis) {
  if (values.size() == 1) return values.front();
  return op("Concat", std::move(values), attr("axis", axis));
}

Value GraphBuilder::slice(Value value, int64_t axis, Value start, Value end, int64_t step) {
  auto one_dimensional = [&](Value bound) { return bound.rank() == 0 ? unsqueeze(bound, {0}) : bound; };
  start = one_dimensional(start);
  end = one_dimensional(end);
  std::optional<std::vector<Dim>> dims = value.type().dims;
  if (dims) {
    Dim& size = dims->at(wrap_axis(axis, value.rank()));
    size = sliced_size(size, start, end, step).value_or(unknown_size("slice"));
  }
  auto typed = [&](Value result) {
    if (dims) set_type(result, value.element_type(), *dims);
    return result;
  };
  if (opset_ >= 10) return typed(op("Slice", value, start, end, ints({axis}), ints({step})));
  if (dims && step > 1) {  // Slice of opset 9 has no steps
    const Dim& size = value.dim(axis);
    if (const std::optional<Dim> count = sliced_size(size, start, end, step)) {
      const int64_t given = start.weight()->as<int64_t>()[0];
      const int64_t first = std::clamp<int64_t>(given < 0 ? given + size.value() : given, 0, size.value());
      check_constant(*this, count->value());
      std::vector<int64_t> indices(count->value());
      for (size_t i = 0; i < indices.size(); ++i) indices[i] = first + static_cast<int64_t>(i) * step;
      return typed(gather(value, ints(indices), wrap_axis(axis, value.rank())));
    }
  }
  if (!start.weight() || !end.weight() || step != 1)
    refuse("slicing with steps or computed bounds needs opset 10; export with opset_version=10 or later");
  return typed(op("Slice", value, attr("starts", std::vector<int64_t>{start.weight()->as<int64_t>()[0]}),
                  attr("ends", std::vector<int64_t>{end.weight()->as<int64_t>()[0]}),
                  attr("axes", std::vector<int64_t>{axis})));
}

Value GraphBuilder::slice(Value value, int64_t axis, int64_t start, int64_t end, int64_t step) {
  return slice(value, axis, ints({start}), ints({end}), step);
}

std::vector<Value> GraphBuilder::split(Value value, int64_t axis, std::span<const Dim> parts) {
  if (parts.size() == 1) return {value};
  std::vector<Operand> operands{value};
  if (opset_ >= 13) {
    operands.push_back(sizes(parts));
  } else {
    std::vector<int64_t> fixed;
    for (const Dim& part : parts) {
      if (!part.is_static()) refuse("splitting into sizes known only at run time needs opset 13");
      fixed.push_back(part.value());
    }
    operands.push_back(attr("split", std::move(fixed)));
  }
  operands.push_back(attr("axis", axis));
  std::vector<Value> results = op_list("Split", parts.size(), std::move(operands));
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<Dim> dims = value.dims();
    dims.at(wrap_axis(axis, value.rank())) = parts[i];
    set_type(results[i], value.element_type(), std::move(dims));
  }
  return results;
}

Value GraphBuilder::reduce(std::string_view name, Value value, std::vector<int64_t> axes, bool keepdims) {
  const int since_input = name == "ReduceSum" ? 13 : 18;
  std::vector<Dim> dims;
  if (axes.empty()) {
    axes.resize(value.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = wrap_axes(axes, value.rank());
  std::ranges::sort(axes);
  if (value.rank() == 0) axes.clear();
  for (int64_t axis = 0; axis < value.rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) {
      dims.push_back(value.dim(axis));
    } else if (keepdims) {
      dims.push_back(Dim(1));
    }
  }
  Value result;
  if (axes.empty()) {
    result = op(name, value, attr("keepdims", keepdims));
  } else if (opset_ >= since_input) {
    result = op(name, value, ints(axes), attr("keepdims", keepdims));
  } else {
    result = op(name, value, attr("axes", axes), attr("keepdims", keepdims));
  }
  set_type(result, result.element_type(), std::move(dims));
  return result;
}

}  // namespace opbridge
