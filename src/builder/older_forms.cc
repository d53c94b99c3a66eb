#include "builder/older_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "builder/constant_limit.h"
#include "onnx/schema_table.h"
#include "onnx/type_inference.h"
#include "tensor/constants.h"
#include "tensor/shape.h"

namespace opbridge::builder {
namespace {

// The element type of the operands; Python numbers take that of the tensors.
ElementType type_of(const GraphBuilder& g, std::span<const Value> values) {
  for (Value value : values) {
    if (value && !g.is_number(value)) return value.element_type();
  }
  return values.front().element_type();
}

const ir::AttributeValue* find(std::span<const ir::Attribute> attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &ir::Attribute::name);
  return found == attributes.end() ? nullptr : &found->value;
}

int64_t integer(std::span<const ir::Attribute> attributes, std::string_view name, int64_t otherwise) {
  const ir::AttributeValue* value = find(attributes, name);
  return value ? std::get<int64_t>(*value) : otherwise;
}

Value input(std::span<const Value> inputs, size_t index) {
  return index < inputs.size() ? inputs[index] : Value();
}

std::optional<double> number_of(Value value) {
  return value && value.weight() && value.weight()->element_count() == 1 ? tensor::number_of(*value.weight())
                                                                         : std::nullopt;
}

// A number that an attribute, which is a float32, can hold.
std::optional<double> float_of(Value value) {
  const std::optional<double> number = number_of(value);
  if (!number || std::isnan(*number) || static_cast<double>(static_cast<float>(*number)) != *number)
    return std::nullopt;
  return number;
}

Value or_equal(GraphBuilder& g, bool less, Value a, Value b) {
  if (is_floating_point(type_of(g, std::array{a, b})))  // NaN compares as false
    return g.op("Or", g.op(less ? "Less" : "Greater", a, b), g.op("Equal", a, b));
  return g.op("Not", g.op(less ? "Greater" : "Less", a, b));
}

Value equal_floats(GraphBuilder& g, Value a, Value b) {
  Value differ = g.op("Or", g.op("Less", a, b), g.op("Greater", a, b));
  for (Value value : {a, b}) {
    const std::optional<double> number = number_of(value);
    if (!number || std::isnan(*number)) differ = g.op("Or", differ, g.op("IsNaN", value));
  }
  return g.op("Not", differ);
}

Value clip(GraphBuilder& g, Value x, Value least, Value most) {
  const std::optional<double> low = float_of(least), high = float_of(most);
  // Runtimes may support only float32.
  if (is_floating_point(x.element_type()) && x.element_type() != ElementType::float64 && low && high)
    return g.op("Clip", x, attr("min", *low), attr("max", *high));
  if (least) x = g.op("Max", x, least);
  return most ? g.op("Min", x, most) : x;
}

Value pad(GraphBuilder& g, std::span<const Value> inputs, const ir::AttributeValue* mode) {
  const Value pads = input(inputs, 1), value = input(inputs, 2);
  if (!pads.weight())
    g.refuse("padding by amounts known only at run time needs opset 11; export with opset_version=11");
  const ElementType type = inputs[0].element_type();
  if (type == ElementType::int64 || type == ElementType::uint64)  // Pad takes only floating point
    g.refuse("padding 64-bit integers needs opset 11; export with opset_version=11");
  const std::optional<double> number = value ? float_of(value) : 0;
  if (!number) g.refuse("padding with this value needs opset 11; export with opset_version=11");
  const std::span<const int64_t> amounts = pads.weight()->as<int64_t>();
  std::vector<Dim> dims = inputs[0].dims();
  if (amounts.size() != 2 * dims.size())
    g.refuse(fmt::format("{} pads are given for {} axes", amounts.size(), dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = dims[i] + Dim(amounts[i] + amounts[i + dims.size()]);
  Value padded = g.op("Pad", inputs[0], attr("pads", std::vector(amounts.begin(), amounts.end())),
                      attr("value", *number),
                      attr("mode", mode ? std::get<std::string>(*mode) : std::string("constant")));
  return g.typed(padded, std::move(dims));
}

std::vector<Value> top_k(GraphBuilder& g, Value x, Value count, int64_t axis, bool largest) {
  const ElementType type = x.element_type();
  const bool is_float = is_floating_point(type);
  if (!is_float && (type == ElementType::int64 || type == ElementType::uint64))
    g.refuse("the order of these integers needs opset 11; export with opset_version=11");
  if (!is_float) x = g.cast(x, ElementType::float64);
  if (!largest) x = g.op("Neg", x);
  std::array<Value, 2> made;
  if (g.opset() >= 10) {
    made = g.ops<2>("TopK", x, count, attr("axis", axis));
  } else {
    if (!count.weight())
      g.refuse("a count known only at run time needs opset 10; export with opset_version=10");
    made = g.ops<2>("TopK", x, attr("axis", axis), attr("k", count.weight()->as<int64_t>()[0]));
  }
  std::vector<Dim> dims = x.dims();
  dims.at(wrap_axis(axis, x.rank())) = g.as_dim(count);
  for (Value value : made) g.typed(value, dims);
  if (!largest) made[0] = g.op("Neg", made[0]);
  return {g.cast(made[0], type), made[1]};
}

// 0, 1, … count - 1; `count` is 1-d.
Value counted(GraphBuilder& g, Value count) {
  const Dim size = g.as_dim(count);
  ir::Weight one = tensor::scalar_weight(1, ElementType::int64);
  one.dims = {1};
  Value ones = g.typed(g.op("ConstantOfShape", count, attr("value", std::move(one))), std::vector{size});
  return g.squeeze(g.typed(g.op("NonZero", ones), std::vector{Dim(1), size}), {0});
}

std::optional<Value> range(GraphBuilder& g, Value start, Value end, Value step) {
  const ElementType type = type_of(g, std::array{start, end, step});
  if (!is_integral(type) || number_of(step) != 1) return std::nullopt;
  const auto wide = [&](Value value) { return g.cast(value, ElementType::int64); };
  const bool from_zero = number_of(start) == 0;
  Value count = from_zero ? wide(end) : g.op("Sub", wide(end), wide(start));
  Value made = counted(g, g.reshape(count, {Dim(1)}));
  return g.cast(from_zero ? made : g.op("Add", made, wide(start)), type);
}

Value times(GraphBuilder& g, Value value, const Dim& factor) {
  return factor.is(1) ? value : g.op("Mul", value, g.size(factor));
}

// 0, stride, 2 * stride, … along `axis` of `rank` axes.
Value positions(GraphBuilder& g, const Dim& count, const Dim& stride, int64_t axis, int64_t rank) {
  Value along;
  if (count.is_static()) {
    check_constant(g, count.value());
    std::vector<int64_t> numbers(count.value());
    std::iota(numbers.begin(), numbers.end(), 0);
    along = g.ints(numbers);
  } else {
    along = counted(g, g.sizes({count}));
  }
  std::vector<int64_t> others;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) others.push_back(i);
  }
  return g.unsqueeze(times(g, along, stride), others);
}

Value gather_elements(GraphBuilder& g, Value data, Value indices, int64_t axis) {
  const int64_t rank = data.rank();
  if (rank == 0 || indices.rank() != rank)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("indices of rank {} for a tensor of rank {}", indices.rank(), rank));
  axis = wrap_axis(axis, rank);
  const std::vector<Dim> strides = tensor::row_major_strides(data.dims());
  Value at = times(g, g.cast(indices, ElementType::int64), strides[axis]);
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis && !indices.dim(i).is(1))
      at = g.op("Add", at, positions(g, indices.dim(i), strides[i], i, rank));
  }
  const std::vector<Dim> dims = indices.dims();
  return g.typed(g.op("Gather", g.reshape(data, {tensor::element_count(data.dims())}), at, attr("axis", 0)),
                 {data.element_type(), dims});
}

// The index of GatherND or ScatterND along the first axes of `data`, as one: without the last axis of
// `indices`.
Value flat_index(GraphBuilder& g, Value data, Value indices, int64_t axes) {
  const std::vector<Dim> strides = tensor::row_major_strides(std::span(data.dims()).first(axes));
  const int64_t last = indices.rank() - 1;
  Value at;
  for (int64_t i = 0; i < axes; ++i) {
    Value index = g.squeeze(g.slice(indices, last, i, i + 1), {last});
    index = g.op("Where", g.op("Less", index, g.scalar(0, ElementType::int64)),
                 g.op("Add", index, g.size(data.dim(i))), index);
    index = times(g, index, strides[i]);
    at = at ? g.op("Add", at, index) : index;
  }
  return at;
}

// The number of axes that GatherND and ScatterND index.
std::optional<int64_t> indexed_axes(Value data, Value indices) {
  if (!data.ranked() || !indices.ranked() || indices.rank() == 0) return std::nullopt;
  const Dim& axes = indices.dim(-1);
  if (!axes.is_static() || axes.value() < 1 || axes.value() > data.rank()) return std::nullopt;
  return axes.value();
}

std::vector<Dim> joined(std::span<const Dim> first, std::span<const Dim> rest) {
  std::vector<Dim> dims(first.begin(), first.end());
  dims.insert(dims.end(), rest.begin(), rest.end());
  return dims;
}

std::optional<Value> gather_nd(GraphBuilder& g, Value data, Value indices) {
  const std::optional<int64_t> axes = indexed_axes(data, indices);
  if (!axes) return std::nullopt;
  const std::span<const Dim> all = data.dims();
  Value rows =
      g.reshape(data, joined(std::array{tensor::element_count(all.first(*axes))}, all.subspan(*axes)));
  return g.op("Gather", rows, flat_index(g, data, indices, *axes), attr("axis", 0));
}

std::optional<Value> scatter_nd(GraphBuilder& g, Value data, Value indices, Value updates) {
  const std::optional<int64_t> axes = indexed_axes(data, indices);
  if (!axes) return std::nullopt;
  const std::vector<Dim> all = data.dims();
  const Dim rows = tensor::element_count(std::span(all).first(*axes)),
            width = tensor::element_count(std::span(all).subspan(*axes));
  const std::vector<Dim> of_indices(indices.dims().begin(), indices.dims().end() - 1);
  const Dim count = tensor::element_count(of_indices);
  Value at = g.reshape(flat_index(g, data, indices, *axes), {count, Dim(1)});
  Value written = g.op("Scatter", g.reshape(data, {rows, width}), g.expand(at, std::array{count, width}),
                       g.reshape(updates, {count, width}), attr("axis", 0));
  return g.reshape(g.typed(written, std::vector{rows, width}), all);
}

// The remainder of integers, with the sign of the dividend (`fmod`) or of the divisor.
Value modulo(GraphBuilder& g, Value a, Value b, bool fmod) {
  Value rest = g.op("Sub", a, g.op("Mul", g.op("Div", a, b), b)), zero = g.scalar_like(rest, 0);
  if (fmod) return rest;
  Value differ = g.op("Xor", g.op("Less", rest, zero), g.op("Less", b, zero));
  Value adjusted = g.op("And", differ, g.op("Not", g.op("Equal", rest, zero)));
  return g.op("Where", adjusted, g.op("Add", rest, b), rest);
}

// Gemm without a third input.
Value matrix_product(GraphBuilder& g, Value a, Value b, std::span<const ir::Attribute> attributes) {
  const auto transposed = [&](Value value, std::string_view name) {
    return integer(attributes, name, 0) != 0 ? g.transpose(value, {1, 0}) : value;
  };
  Value made = g.op("MatMul", transposed(a, "transA"), transposed(b, "transB"));
  const ir::AttributeValue* alpha = find(attributes, "alpha");
  return alpha ? g.op("Mul", made, g.scalar_like(made, std::get<double>(*alpha))) : made;
}

// Pools without the attributes that opset 10 added, if these have the values that older opsets imply.
std::optional<std::vector<Value>> pool(GraphBuilder& g, std::string_view name, Value x, size_t outputs,
                                       std::span<const ir::Attribute> attributes) {
  std::vector<Operand> operands{x};
  for (const ir::Attribute& attribute : attributes) {
    const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute.value);
    const bool is_implied = attribute.name == "dilations"
                                ? std::ranges::all_of(*numbers, [](int64_t n) { return n == 1; })
                            : attribute.name == "ceil_mode" ? std::get<int64_t>(attribute.value) == 0
                                                            : false;
    if (!is_implied) operands.emplace_back(Attr{attribute.name, attribute.value});
  }
  if (operands.size() == attributes.size() + 1) return std::nullopt;
  return g.op_list(name, outputs, std::move(operands));
}

// Before opset 11, the axis of these operators must not be negative.
constexpr std::array<std::string_view, 10> operators_with_axis = {
    "ArgMax", "ArgMin",     "Compress", "Concat",  "Flatten",
    "Gather", "LogSoftmax", "Scatter",  "Softmax", "Split"};

std::optional<std::vector<Value>> with_first_axis(GraphBuilder& g, std::string_view name,
                                                  std::span<const Value> inputs,
                                                  std::span<const ir::Attribute> attributes, size_t outputs) {
  if (!inputs[0] || !inputs[0].ranked() || integer(attributes, "axis", 0) >= 0) return std::nullopt;
  std::vector<Operand> operands(inputs.begin(), inputs.end());
  for (const ir::Attribute& attribute : attributes) {
    operands.emplace_back(attribute.name == "axis"
                              ? attr("axis", wrap_axis(std::get<int64_t>(attribute.value), inputs[0].rank()))
                              : Attr{attribute.name, attribute.value});
  }
  return g.op_list(name, outputs, std::move(operands));
}

std::optional<std::vector<Value>> before_opset_11(GraphBuilder& g, std::string_view name,
                                                  std::span<const Value> inputs, size_t outputs,
                                                  std::span<const ir::Attribute> attributes) {
  const auto axis = [&](int64_t otherwise) { return integer(attributes, "axis", otherwise); };
  const auto as_list = [](std::optional<Value> value) {
    return value ? std::optional(std::vector{*value}) : std::nullopt;
  };
  if (name == "Equal" && is_floating_point(type_of(g, inputs)))
    return std::vector{equal_floats(g, inputs[0], inputs[1])};
  if (name == "Clip" && inputs.size() > 1)
    return std::vector{clip(g, inputs[0], inputs[1], input(inputs, 2))};
  if (name == "Pad" && inputs.size() > 1) return std::vector{pad(g, inputs, find(attributes, "mode"))};
  if (name == "TopK" && (find(attributes, "largest") || (g.opset() < 10 && inputs.size() == 2)))
    return top_k(g, inputs[0], inputs[1], axis(-1), integer(attributes, "largest", 1) != 0);
  if (name == "Range") return as_list(range(g, inputs[0], inputs[1], inputs[2]));
  if (name == "GatherElements") return std::vector{gather_elements(g, inputs[0], inputs[1], axis(0))};
  if (name == "GatherND" && !find(attributes, "batch_dims"))
    return as_list(gather_nd(g, inputs[0], inputs[1]));
  if (name == "ScatterElements" && !find(attributes, "reduction")) {
    Value written = g.op("Scatter", inputs[0], inputs[1], inputs[2], attr("axis", axis(0)));
    return std::vector{g.typed(written, inputs[0].type())};
  }
  if (name == "ScatterND" && !find(attributes, "reduction"))
    return as_list(scatter_nd(g, inputs[0], inputs[1], inputs[2]));
  if (name == "Gemm" && inputs.size() == 2)
    return std::vector{matrix_product(g, inputs[0], inputs[1], attributes)};
  if ((name == "MaxPool" || name == "AveragePool") && g.opset() < 10)
    return pool(g, name, inputs[0], outputs, attributes);
  if (name == "IsInf" && attributes.empty() && g.opset() < 10)
    return std::vector{g.op("Equal", g.op("Abs", inputs[0]), g.scalar_like(inputs[0], INFINITY))};
  if (name == "Mod" && g.opset() < 10 && is_integral(type_of(g, inputs)))
    return std::vector{modulo(g, inputs[0], inputs[1], integer(attributes, "fmod", 0) != 0)};
  if (std::ranges::find(operators_with_axis, name) != operators_with_axis.end())
    return with_first_axis(g, name, inputs, attributes, outputs);
  return std::nullopt;
}

}  // namespace

Value extremum_of_integers(GraphBuilder& g, bool greatest, std::span<const Value> values) {
  Value result = values.front();
  for (Value value : values.subspan(1))
    result = g.op("Where", g.op(greatest ? "Greater" : "Less", result, value), result, value);
  return result;
}

std::optional<std::vector<Value>> in_older_form(GraphBuilder& g, std::string_view name,
                                                std::span<const Value> inputs, size_t outputs,
                                                std::span<const ir::Attribute> attributes) {
  if (g.opset() >= 12 || inputs.empty() || !inputs[0]) return std::nullopt;
  const bool less = name == "LessOrEqual";
  if (less || name == "GreaterOrEqual") return std::vector{or_equal(g, less, inputs[0], inputs[1])};
  const bool greatest = name == "Max";
  if ((greatest || name == "Min") && inputs.size() > 1 && is_integral(type_of(g, inputs)))
    return std::vector{extremum_of_integers(g, greatest, inputs)};
  if (name == "Clip" && inputs.size() > 1 && is_integral(inputs[0].element_type()))
    return std::vector{clip(g, inputs[0], inputs[1], input(inputs, 2))};
  return g.opset() < 11 ? before_opset_11(g, name, inputs, outputs, attributes) : std::nullopt;
}

int opset_that_adds(std::string_view name, size_t inputs, size_t outputs,
                    std::span<const ir::Attribute> attributes, int opset) {
  const auto fits = [&](const onnx::OpSchema* schema) {
    return schema && !schema->deprecated && schema->accepts_inputs(inputs) &&
           schema->accepts_outputs(outputs) &&
           std::ranges::all_of(attributes, [&](const ir::Attribute& a) { return schema->attribute(a.name); });
  };
  if (fits(onnx::find_schema("", name, opset))) return 0;
  for (int later = opset + 1; later <= onnx::newest_opset(); ++later) {
    if (fits(onnx::find_schema("", name, later))) return later;
  }
  return 0;
}

int opset_that_takes(std::string_view name, std::span<const Value> inputs,
                     std::span<const ir::Attribute> attributes, int opset) {
  std::vector<std::optional<ElementType>> types;
  for (Value value : inputs) {
    const bool known = value && value.element_type() != ElementType::undefined;
    types.push_back(known ? std::optional(value.element_type()) : std::nullopt);
  }
  for (int later = opset + 1; later <= onnx::newest_opset(); ++later) {
    const onnx::OpSchema* schema = onnx::find_schema("", name, later);
    if (!schema || schema->since_version != later || !schema->accepts_inputs(inputs.size())) continue;
    if (!onnx::resolve(*schema, types, onnx::type_attribute(*schema, attributes)).conflict()) return later;
  }
  return 0;
}

}  // namespace opbridge::builder
