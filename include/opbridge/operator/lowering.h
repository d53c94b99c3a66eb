// The GraphBuilder of an operator's lowering to standard ONNX. Included by opbridge/operator.h.
//
// It has the interface of the GraphBuilder in opbridge/symbolic.h: `g.op` makes a node, which the exporter
// checks against the schema of the model's opset. Sizes may be symbolic (Dim); the host computes them from
// the inputs where a node needs one. If standard ONNX cannot express the operator for some arguments, call
// g.use_own_node(): the model then holds the operator's own node. An exception of the lowering becomes the
// error of the export.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "opbridge/operator/binding.h"

namespace opbridge::op {

struct Since {
  int opset;
};

// A number, or a symbolic size.
class Scalar {
 public:
  template <std::integral T>
  Scalar(T value) : value_(Dim(value)) {}      // NOLINT
  Scalar(double value) : value_(value) {}      // NOLINT
  Scalar(const Dim& value) : value_(value) {}  // NOLINT
  const std::variant<Dim, double>& get() const { return value_; }

 private:
  std::variant<Dim, double> value_;
};

// A named attribute of the node being made: `attr("axis", 1)`.
struct Attr {
  std::string name;
  std::variant<std::vector<opbridge_dim>, std::vector<double>, std::vector<std::string>> value;
  bool list = false;
};
inline Attr attr(std::string name, std::span<const std::int64_t> values) {
  std::vector<opbridge_dim> numbers;
  for (const std::int64_t value : values) numbers.push_back({value, 0});
  return {std::move(name), std::move(numbers), true};
}
inline Attr attr(std::string name, std::initializer_list<std::int64_t> values) {
  return attr(std::move(name), std::span(values.begin(), values.size()));
}
inline Attr attr(std::string name, std::span<const double> values) {
  return {std::move(name), std::vector<double>(values.begin(), values.end()), true};
}
inline Attr attr(std::string name, std::vector<std::string> values) {
  return {std::move(name), std::move(values), true};
}
template <std::integral T>
Attr attr(std::string name, T value) {
  return {std::move(name), std::vector<opbridge_dim>{{static_cast<std::int64_t>(value), 0}}};
}
inline Attr attr(std::string name, double value) { return {std::move(name), std::vector<double>{value}}; }
inline Attr attr(std::string name, std::string_view value) {
  return {std::move(name), std::vector<std::string>{std::string(value)}};
}
inline Attr attr(std::string name, ElementType value) {
  return attr(std::move(name), static_cast<std::int64_t>(value));
}

// An argument of `g.op` after the operator's name: an input, by position, or an attribute, by name. An empty
// Value or std::nullopt is an omitted optional input; a list holds the values of a variadic input.
class Operand {
 public:
  Operand(Value value) : item_(std::vector<Value>{value}) {}                                    // NOLINT
  Operand(std::optional<Value> value) : item_(std::vector<Value>{value.value_or(Value())}) {}   // NOLINT
  Operand(std::nullopt_t) : item_(std::vector<Value>{Value()}) {}                               // NOLINT
  Operand(std::span<const Value> values) : item_(std::vector(values.begin(), values.end())) {}  // NOLINT
  Operand(std::vector<Value> values) : item_(std::move(values)) {}                              // NOLINT
  Operand(Attr attribute) : item_(std::move(attribute)) {}                                      // NOLINT
  const std::variant<std::vector<Value>, Attr>& item() const { return item_; }

 private:
  std::variant<std::vector<Value>, Attr> item_;
};

namespace detail {
struct OwnNode {};  // what use_own_node throws
}  // namespace detail

class GraphBuilder {
 public:
  explicit GraphBuilder(const opbridge_onnx_host& host) : host_(&host) {}

  int opset() const { return host_->opset; }

  // A node with one output: `g.op("Gemm", x, w, bias, attr("transB", 1))`.
  template <class... Operands>
  Value op(std::string_view name, Operands&&... operands) {
    return op_list(name, 1, {Operand(std::forward<Operands>(operands))...}).front();
  }
  // A node with `outputs` outputs: `auto [values, indices] = g.ops<2>("TopK", x, k)`.
  template <std::size_t outputs, class... Operands>
  std::array<Value, outputs> ops(std::string_view name, Operands&&... operands) {
    const std::vector<Value> made = op_list(name, outputs, {Operand(std::forward<Operands>(operands))...});
    std::array<Value, outputs> result;
    std::copy(made.begin(), made.end(), result.begin());
    return result;
  }
  std::vector<Value> op_list(std::string_view name, std::size_t outputs,
                             const std::vector<Operand>& operands);

  // Constants.
  template <class T>
  Value constant(std::span<const T> values, std::vector<std::int64_t> dims) {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    require(count == static_cast<std::int64_t>(values.size()),
            "a constant has fewer or more elements than its dims say");
    return one([&](opbridge_value* result) {
      return host_->constant(host_->user, static_cast<std::int32_t>(op::element_type<T>()), dims.data(),
                             static_cast<std::int32_t>(dims.size()), values.data(), result);
    });
  }
  template <class T>
  Value constant(std::initializer_list<T> values, std::vector<std::int64_t> dims) {
    return constant(std::span<const T>(values.begin(), values.size()), std::move(dims));
  }
  Value scalar(const Scalar& value, ElementType type);  // 0-d
  Value scalar_like(Value like, const Scalar& value) { return scalar(value, like.element_type()); }
  // A number as an operand: 0-d, int64 or float64. Where ONNX requires the same element type of it and a
  // tensor, it takes the tensor's type if that can hold its value.
  Value number(const Scalar& value) { return scalar(value, ElementType::undefined); }
  Value ints(std::span<const std::int64_t> values) {  // 1-d int64
    return constant(values, {static_cast<std::int64_t>(values.size())});
  }
  Value ints(std::initializer_list<std::int64_t> values) {
    return ints(std::span(values.begin(), values.size()));
  }

  // Sizes.
  Value size(const Dim& dim) { return form(OPBRIDGE_SIZE, {}, {dim}); }      // 0-d int64
  Value sizes(const Shape& dims) { return form(OPBRIDGE_SIZES, {}, dims); }  // 1-d int64
  Value shape_of(Value value) { return form(OPBRIDGE_SHAPE_OF, {value}, {}); }
  Value dim_of(Value value, std::int64_t axis) { return size(value.dim(axis)); }
  // Declares the dims of a value where they are not inferred; returns the value.
  Value set_dims(Value value, const Shape& dims) { return form(OPBRIDGE_SET_DIMS, {value}, dims); }

  // Operators whose form changed between opsets, and other common ones. They return their input where they
  // would not change it.
  Value cast(Value value, ElementType to) {
    return form(OPBRIDGE_CAST, {value}, {static_cast<std::int64_t>(to)});
  }
  Value reshape(Value value, const Shape& dims) { return form(OPBRIDGE_RESHAPE, {value}, dims); }  // no -1
  Value expand(Value value, const Shape& dims) { return form(OPBRIDGE_EXPAND, {value}, dims); }    // no -1
  Value transpose(Value value, const std::vector<std::int64_t>& permutation) {
    return form(OPBRIDGE_TRANSPOSE, {value}, shape_of_numbers(permutation));
  }
  Value unsqueeze(Value value, const std::vector<std::int64_t>& axes) {  // axes of the result
    return form(OPBRIDGE_UNSQUEEZE, {value}, shape_of_numbers(axes));
  }
  Value squeeze(Value value, const std::vector<std::int64_t>& axes) {
    return form(OPBRIDGE_SQUEEZE, {value}, shape_of_numbers(axes));
  }
  Value concat(const std::vector<Value>& values, std::int64_t axis) {
    return form(OPBRIDGE_CONCAT, values, {axis});
  }
  // The elements [start, end) along an axis, clamped to its size; negative bounds count from the end.
  Value slice(Value value, std::int64_t axis, const Dim& start, const Dim& end, std::int64_t step = 1) {
    return form(OPBRIDGE_SLICE, {value}, {axis, start, end, step});
  }
  Value gather(Value value, Value indices, std::int64_t axis) {
    return op("Gather", value, indices, attr("axis", axis));
  }
  // The parts of an axis with these sizes, which must add up to the size of the axis.
  std::vector<Value> split(Value value, std::int64_t axis, const Shape& sizes) {
    Shape numbers{axis};
    numbers.insert(numbers.end(), sizes.begin(), sizes.end());
    return forms(OPBRIDGE_SPLIT, "", {value}, numbers, sizes.size());
  }
  // "ReduceMean", "ReduceSum", …: axes as attribute or input, as the opset requires. No axes means all axes.
  Value reduce(const std::string& name, Value value, const std::vector<std::int64_t>& axes, bool keepdims) {
    Shape numbers = shape_of_numbers(axes);
    numbers.insert(numbers.begin(), Dim(keepdims));
    return forms(OPBRIDGE_REDUCE, name, {value}, numbers, 1).front();
  }

  // Ends the lowering: for these arguments the model gets the operator's own node, as without a lowering.
  [[noreturn]] void use_own_node() const { throw detail::OwnNode{}; }

 private:
  static Shape shape_of_numbers(const std::vector<std::int64_t>& numbers) {
    return {numbers.begin(), numbers.end()};
  }
  static std::vector<opbridge_value> handles(std::span<const Value> values) {
    std::vector<opbridge_value> result;
    for (const Value& value : values) result.push_back(value.handle());
    return result;
  }
  std::vector<Value> wrapped(const std::vector<opbridge_value>& handles) const {
    std::vector<Value> values;
    for (const opbridge_value handle : handles) values.emplace_back(handle, host_);
    return values;
  }
  template <class F>
  Value one(const F& make) const {
    opbridge_value result = 0;
    detail::check_onnx_host(make(&result));
    return {result, host_};
  }
  Value form(opbridge_form what, const std::vector<Value>& inputs, const Shape& numbers) {
    return forms(what, "", inputs, numbers, 1).front();
  }
  std::vector<Value> forms(opbridge_form what, const std::string& name, const std::vector<Value>& inputs,
                           const Shape& numbers, std::size_t outputs);

  const opbridge_onnx_host* host_;
};

inline std::vector<Value> GraphBuilder::op_list(std::string_view name, std::size_t outputs,
                                                const std::vector<Operand>& operands) {
  std::vector<Value> inputs;
  std::vector<opbridge_attribute> attributes;
  std::vector<std::vector<const char*>> texts;
  for (const Operand& operand : operands) {
    if (const auto* values = std::get_if<std::vector<Value>>(&operand.item())) {
      inputs.insert(inputs.end(), values->begin(), values->end());
      continue;
    }
    const Attr& attribute = std::get<Attr>(operand.item());
    opbridge_attribute made{attribute.name.c_str(), {}};
    std::visit([&](const auto& values) { made.value.count = static_cast<std::int32_t>(values.size()); },
               attribute.value);
    if (const auto* ints = std::get_if<std::vector<opbridge_dim>>(&attribute.value)) {
      made.value.kind = attribute.list ? OPBRIDGE_INTS : OPBRIDGE_INT;
      made.value.ints = ints->data();
    } else if (const auto* floats = std::get_if<std::vector<double>>(&attribute.value)) {
      made.value.kind = attribute.list ? OPBRIDGE_FLOATS : OPBRIDGE_FLOAT;
      made.value.floats = floats->data();
    } else {
      std::vector<const char*>& pointers = texts.emplace_back();
      for (const std::string& text : std::get<std::vector<std::string>>(attribute.value))
        pointers.push_back(text.c_str());
      made.value.kind = attribute.list ? OPBRIDGE_STRINGS : OPBRIDGE_STRING;
      made.value.strings = pointers.data();
    }
    attributes.push_back(made);
  }
  const std::vector<opbridge_value> given = handles(inputs);
  std::vector<opbridge_value> made(outputs);
  detail::check_onnx_host(host_->node(host_->user, std::string(name).c_str(), given.data(),
                                      static_cast<std::int32_t>(given.size()), attributes.data(),
                                      static_cast<std::int32_t>(attributes.size()), made.data(),
                                      static_cast<std::int32_t>(outputs)));
  return wrapped(made);
}

inline Value GraphBuilder::scalar(const Scalar& value, ElementType type) {
  opbridge_argument number{};
  number.count = 1;
  opbridge_dim dim{};
  if (const Dim* size = std::get_if<Dim>(&value.get())) {
    dim = size->handle();
    number.kind = OPBRIDGE_INT;
    number.ints = &dim;
  } else {
    number.kind = OPBRIDGE_FLOAT;
    number.floats = std::get_if<double>(&value.get());
  }
  return one([&](opbridge_value* result) {
    return host_->scalar(host_->user, &number, static_cast<std::int32_t>(type), result);
  });
}

inline std::vector<Value> GraphBuilder::forms(opbridge_form what, const std::string& name,
                                              const std::vector<Value>& inputs, const Shape& numbers,
                                              std::size_t outputs) {
  const std::vector<opbridge_value> given = handles(inputs);
  std::vector<opbridge_dim> dims;
  for (const Dim& dim : numbers) dims.push_back(dim.handle());
  std::vector<opbridge_value> made(outputs);
  detail::check_onnx_host(host_->form(
      host_->user, what, name.c_str(), given.data(), static_cast<std::int32_t>(given.size()), dims.data(),
      static_cast<std::int32_t>(dims.size()), made.data(), static_cast<std::int32_t>(outputs)));
  return wrapped(made);
}

namespace detail {

using LoweringFunction = std::vector<op::Value> (*)(GraphBuilder&, std::span<const Value>);

struct Lowering {
  int since;
  LoweringFunction run;
};

template <>
struct Parameter<op::Value> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::tensor, false, false}; }
  explicit Parameter(const Value& v) : value(std::get<op::Value>(v)) {}
  op::Value get() const { return value; }
  op::Value value;
};

template <>
struct Parameter<std::span<const op::Value>> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::tensor, true, false}; }
  explicit Parameter(const Value& v) : values(std::get<std::vector<op::Value>>(v)) {}
  std::span<const op::Value> get() const { return values; }
  std::span<const op::Value> values;
};

template <class P>
inline constexpr bool is_onnx_value =
    std::is_same_v<P, op::Value> || std::is_same_v<P, std::optional<op::Value>> ||
    std::is_same_v<P, std::span<const op::Value>>;

inline std::vector<op::Value> values_of(op::Value value) { return {value}; }
inline std::vector<op::Value> values_of(std::vector<op::Value> values) { return values; }
template <class Tuple>
std::vector<op::Value> values_of(const Tuple& values) {
  return std::apply([](const auto&... v) { return std::vector<op::Value>{v...}; }, values);
}

template <class R>
constexpr bool values_fit(const Schema& schema) {
  if constexpr (std::is_same_v<R, std::vector<op::Value>>) {
    return schema.returns[0].list;
  } else if constexpr (std::is_same_v<R, op::Value>) {
    return schema.return_count == 1 && !schema.returns[0].list;
  } else if constexpr (requires { std::tuple_size<R>::value; }) {
    return schema.return_count == std::tuple_size_v<R> && !schema.returns[0].list;
  } else {
    return false;
  }
}

// f(GraphBuilder&, arguments…) -> Value, a std::tuple or std::array of them, or std::vector<Value>.
template <const Schema& schema, class F>
class LoweringBinding {
  using P = typename Traits<F>::Parameters;
  static constexpr std::size_t kArguments = schema.argument_count;
  static_assert(P::size == 1 + kArguments,
                "a lowering takes GraphBuilder&, then each argument of the schema");
  static_assert(std::is_same_v<typename P::template at<0>, GraphBuilder>,
                "the first parameter of a lowering is GraphBuilder&");

  template <std::size_t... i>
  static constexpr bool fits(std::index_sequence<i...>) {
    return ((schema.arguments[i].type.is_tensor() == is_onnx_value<typename P::template at<1 + i>>)&&...) &&
           arguments_fit<schema, P, 1>(std::index_sequence<i...>{});
  }
  static_assert(fits(std::make_index_sequence<kArguments>{}),
                "a parameter of the lowering does not fit its argument in the schema: Tensor is Value, "
                "Tensor? std::optional<Value>, Tensor[] std::span<const Value>, int and SymInt Dim, or "
                "std::int64_t, which takes no symbolic size, float double, bool bool, str std::string_view, "
                "T[] std::span<const T>, SymInt[] const Shape&, T? std::optional<T>");
  static_assert(values_fit<std::remove_cvref_t<typename Traits<F>::Result>>(schema),
                "a lowering returns Value for Tensor, std::tuple or std::array of Value for several, "
                "std::vector<Value> for Tensor[]");

  template <std::size_t... i>
  static std::vector<op::Value> run(GraphBuilder& g, std::span<const Value> arguments,
                                    std::index_sequence<i...>) {
    std::tuple<Parameter<typename P::template at<1 + i>>...> in{
        Parameter<typename P::template at<1 + i>>(arguments[i])...};
    return values_of(call<F>(g, std::get<i>(in).get()...));
  }

 public:
  static std::vector<op::Value> run(GraphBuilder& g, std::span<const Value> arguments) {
    return run(g, arguments, std::make_index_sequence<kArguments>{});
  }
};

}  // namespace detail
}  // namespace opbridge::op
