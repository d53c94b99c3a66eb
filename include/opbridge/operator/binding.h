// Decodes the arguments of a call by the parameter types of a kernel or a shape rule, and checks these types
// against the schema. Included by opbridge/operator.h; authors of operators need nothing from it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "opbridge/operator/context.h"
#include "opbridge/operator/schema.h"
#include "opbridge/operator/shape.h"
#include "opbridge/operator/tensor.h"
#include "opbridge/operator/value.h"

namespace opbridge::op {

template <class... T>
struct Types {};

// A parameter that stands for the gradient of an argument without one.
struct NoGradient {};

namespace detail {

// An argument of a call. A tensor is a TensorRef for a kernel, a Shape for a shape rule and an op::Value for
// a lowering; int, SymInt and bool are a Dim, their lists a Shape; float is a double; None is the monostate.
using Value =
    std::variant<std::monostate, TensorRef, std::vector<TensorRef>, Dim, Shape, std::vector<Shape>, op::Value,
                 std::vector<op::Value>, double, std::vector<double>, std::string, std::vector<std::string>>;

// A return of a call: one tensor, or those of a list. Empty for a gradient that is not wanted.
using Result = std::vector<TensorRef>;

using KernelFunction = void (*)(Host&, std::span<const Value>, std::span<const Result>);
using ShapeFunction = std::vector<std::vector<Shape>> (*)(std::span<const Value>);

// A kernel for one choice of element types.
struct Kernel {
  Device device;
  std::vector<ElementType> inputs;   // of each tensor argument
  std::vector<ElementType> outputs;  // of each return
  std::vector<bool> data_sized;      // of each return: the kernel allocates it
  KernelFunction run;
};

// A parameter that takes an argument: `fits` checks it against the schema's type, the constructor reads the
// Value, and get() returns what the kernel takes.
template <class P>
struct Parameter {
  static constexpr bool fits(SchemaType) { return false; }
};

template <class T>
TensorView<T> view_of(const TensorRef& tensor) {
  return {static_cast<T*>(tensor.data), tensor.dims};
}

template <class T>
struct Parameter<TensorView<const T>> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::tensor, false, false}; }
  static constexpr ElementType element = element_type<T>();
  explicit Parameter(const Value& v) : view(view_of<const T>(std::get<TensorRef>(v))) {}
  TensorView<const T> get() const { return view; }
  TensorView<const T> view;
};

template <class T>
struct Parameter<std::optional<TensorView<const T>>> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::tensor, false, true}; }
  static constexpr ElementType element = element_type<T>();
  explicit Parameter(const Value& v) {
    if (const auto* tensor = std::get_if<TensorRef>(&v)) view.emplace(view_of<const T>(*tensor));
  }
  std::optional<TensorView<const T>> get() const { return view; }
  std::optional<TensorView<const T>> view;
};

template <class T>
struct Parameter<std::span<const TensorView<const T>>> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::tensor, true, false}; }
  static constexpr ElementType element = element_type<T>();
  explicit Parameter(const Value& v) {
    for (const TensorRef& tensor : std::get<std::vector<TensorRef>>(v))
      views.push_back(view_of<const T>(tensor));
  }
  std::span<const TensorView<const T>> get() const { return views; }
  std::vector<TensorView<const T>> views;
};

template <>
struct Parameter<Shape> {
  static constexpr bool fits(SchemaType t) {
    return !t.optional &&
           (t.is_tensor() ? !t.list : t.list && (t.kind == Kind::sym_int || t.kind == Kind::integer));
  }
  explicit Parameter(const Value& v) : shape(std::get<Shape>(v)) {}
  const Shape& get() const { return shape; }
  const Shape& shape;
};

template <>
struct Parameter<std::vector<Shape>> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::tensor, true, false}; }
  explicit Parameter(const Value& v) : shapes(std::get<std::vector<Shape>>(v)) {}
  const std::vector<Shape>& get() const { return shapes; }
  const std::vector<Shape>& shapes;
};

template <>
struct Parameter<Dim> {
  static constexpr bool fits(SchemaType t) {
    return !t.list && !t.optional && (t.kind == Kind::sym_int || t.kind == Kind::integer);
  }
  explicit Parameter(const Value& v) : dim(std::get<Dim>(v)) {}
  Dim get() const { return dim; }
  Dim dim;
};

template <>
struct Parameter<std::int64_t> {
  static constexpr bool fits(SchemaType t) { return Parameter<Dim>::fits(t); }
  explicit Parameter(const Value& v) : value(std::get<Dim>(v).number()) {}
  std::int64_t get() const { return value; }
  std::int64_t value;
};

template <>
struct Parameter<bool> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::boolean, false, false}; }
  explicit Parameter(const Value& v) : value(std::get<Dim>(v).number() != 0) {}
  bool get() const { return value; }
  bool value;
};

template <>
struct Parameter<double> {
  static constexpr bool fits(SchemaType t) { return !t.list && !t.optional && t.kind == Kind::floating; }
  explicit Parameter(const Value& v) : value(std::get<double>(v)) {}
  double get() const { return value; }
  double value;
};

template <>
struct Parameter<std::string_view> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::string, false, false}; }
  explicit Parameter(const Value& v) : value(std::get<std::string>(v)) {}
  std::string_view get() const { return value; }
  std::string_view value;
};

template <>
struct Parameter<std::span<const std::int64_t>> {
  static constexpr bool fits(SchemaType t) {
    return t.list && !t.optional && (t.kind == Kind::sym_int || t.kind == Kind::integer);
  }
  explicit Parameter(const Value& v) {
    for (const Dim& dim : std::get<Shape>(v)) values.push_back(dim.number());
  }
  std::span<const std::int64_t> get() const { return values; }
  std::vector<std::int64_t> values;
};

template <>
struct Parameter<std::span<const bool>> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::boolean, true, false}; }
  explicit Parameter(const Value& v)
      : size(std::get<Shape>(v).size()), values(std::make_unique<bool[]>(size)) {
    for (std::size_t i = 0; i < size; ++i) values[i] = std::get<Shape>(v)[i].number() != 0;
  }
  std::span<const bool> get() const { return {values.get(), size}; }
  std::size_t size;
  std::unique_ptr<bool[]> values;
};

template <>
struct Parameter<std::span<const double>> {
  static constexpr bool fits(SchemaType t) { return t.list && !t.optional && t.kind == Kind::floating; }
  explicit Parameter(const Value& v) : values(std::get<std::vector<double>>(v)) {}
  std::span<const double> get() const { return values; }
  std::span<const double> values;
};

template <>
struct Parameter<std::span<const std::string_view>> {
  static constexpr bool fits(SchemaType t) { return t == SchemaType{Kind::string, true, false}; }
  explicit Parameter(const Value& v) {
    const auto& strings = std::get<std::vector<std::string>>(v);
    values.assign(strings.begin(), strings.end());
  }
  std::span<const std::string_view> get() const { return values; }
  std::vector<std::string_view> values;
};

template <class P>
struct Parameter<std::optional<P>> {
  static constexpr bool fits(SchemaType t) {
    const bool optional = t.optional;
    t.optional = false;
    return optional && Parameter<P>::fits(t);
  }
  explicit Parameter(const Value& v) {
    if (!std::holds_alternative<std::monostate>(v)) some.emplace(v);
  }
  std::optional<P> get() const { return some ? std::optional<P>(some->get()) : std::nullopt; }
  std::optional<Parameter<P>> some;
};

template <class P>
concept TensorParameter = requires {
  Parameter<P>::element;
};

// A parameter that takes a return.
template <class P>
struct ResultParameter {
  static_assert(!sizeof(P), "a return is a TensorView<T>, an Output<T>, or a std::span<const TensorView<T>>");
};

template <class T>
struct ResultParameter<TensorView<T>> {
  static constexpr bool fits(SchemaType t) { return !t.list && !std::is_const_v<T>; }
  static constexpr ElementType element = element_type<T>();
  static constexpr bool data_sized = false;
  ResultParameter(Host&, int, const Result& r) : view(view_of<T>(r.front())) {}
  TensorView<T> get() const { return view; }
  TensorView<T> view;
};

template <class T>
struct ResultParameter<Output<T>> {
  static constexpr bool fits(SchemaType t) { return !t.list; }
  static constexpr ElementType element = element_type<T>();
  static constexpr bool data_sized = true;
  ResultParameter(Host& host, int index, const Result&) : output(host, index) {}
  Output<T> get() const { return output; }
  Output<T> output;
};

template <class T>
struct ResultParameter<std::span<const TensorView<T>>> {
  static constexpr bool fits(SchemaType t) { return t.list; }
  static constexpr ElementType element = element_type<T>();
  static constexpr bool data_sized = false;
  ResultParameter(Host&, int, const Result& r) {
    for (const TensorRef& tensor : r) views.push_back(view_of<T>(tensor));
  }
  std::span<const TensorView<T>> get() const { return views; }
  std::vector<TensorView<T>> views;
};

// A gradient, absent where the caller does not want it.
template <class T>
struct ResultParameter<std::optional<TensorView<T>>> {
  static constexpr ElementType element = element_type<T>();
  explicit ResultParameter(const Result& r) {
    if (!r.empty()) view.emplace(view_of<T>(r.front()));
  }
  std::optional<TensorView<T>> get() const { return view; }
  std::optional<TensorView<T>> view;
};

// The parameters and the result of a lambda's call operator, for given template arguments.
template <class... P>
struct ParameterList {
  static constexpr std::size_t size = sizeof...(P);
  template <std::size_t i>
  using at = std::remove_cvref_t<std::tuple_element_t<i, std::tuple<P...>>>;
};

template <class>
struct MemberTraits;
template <class C, class R, class... P>
struct MemberTraits<R (C::*)(P...) const> {
  using Result = R;
  using Parameters = ParameterList<P...>;
};
template <class C, class R, class... P>
struct MemberTraits<R (C::*)(P...) const noexcept> : MemberTraits<R (C::*)(P...) const> {};

template <class F, class... T>
constexpr auto call_operator() {
  if constexpr (sizeof...(T) == 0) {
    return &F::operator();
  } else {
    return &F::template operator()<T...>;
  }
}
template <class F, class... T>
using Traits = MemberTraits<decltype(call_operator<F, T...>())>;

// The lambda itself. It has no captures, so it can be called without being stored.
template <class F, class... T, class... Args>
decltype(auto) call(Args&&... args) {
  static_assert(std::is_empty_v<F>, "kernels, shape rules and lowerings are lambdas that capture nothing");
  return (F{}.*call_operator<F, T...>())(std::forward<Args>(args)...);
}

// A kernel, with the context of its device.
template <class C, class F, class... T, class... Args>
void call_kernel(Host& host, Args&&... args) {
  if constexpr (C::device == Device::cuda) {
    CudaContext context(static_cast<const CudaHost&>(host));
    call<F, T...>(context, std::forward<Args>(args)...);
    check_cuda();
  } else {
    call<F, T...>(static_cast<Context&>(host), std::forward<Args>(args)...);
  }
}

template <class P, class C>
inline constexpr bool takes_context = std::is_same_v<typename P::template at<0>, C>;

template <class T, class... Rest>
std::vector<T> vector_of(Rest... values) {
  return {values...};
}

// Checks argument parameters P[first…] against the schema; the caller has compared the counts.
template <const Schema& schema, class P, std::size_t first, std::size_t... i>
constexpr bool arguments_fit(std::index_sequence<i...>) {
  return (Parameter<typename P::template at<first + i>>::fits(schema.arguments[i].type) && ...);
}

template <class P, std::size_t first, std::size_t... i>
std::vector<ElementType> input_elements(std::index_sequence<i...>) {
  std::vector<ElementType> elements;
  (
      [&]<class A>(std::type_identity<A>) {
        if constexpr (TensorParameter<A>) elements.push_back(Parameter<A>::element);
      }(std::type_identity<typename P::template at<first + i>>{}),
      ...);
  return elements;
}

// A kernel: f(Context& or CudaContext&, arguments…, returns…).

template <const Schema& schema, class C, class F, class... T>
class KernelBinding {
  using P = typename Traits<F, T...>::Parameters;
  static constexpr std::size_t kArguments = schema.argument_count, kReturns = schema.return_count;
  static_assert(P::size == 1 + kArguments + kReturns,
                "a kernel takes Context&, then each argument of the schema, then each return");
  static_assert(takes_context<P, C>, "a kernel of .cpu takes Context&, one of .cuda CudaContext&");

  template <std::size_t... a, std::size_t... r>
  static constexpr bool fits(std::index_sequence<a...>, std::index_sequence<r...>) {
    return arguments_fit<schema, P, 1>(std::index_sequence<a...>{}) &&
           (ResultParameter<typename P::template at<1 + kArguments + r>>::fits(schema.returns[r]) && ...);
  }
  static_assert(
      fits(std::make_index_sequence<kArguments>{}, std::make_index_sequence<kReturns>{}),
      "a parameter of the kernel does not fit its argument in the schema: Tensor is TensorView<const T>, "
      "Tensor? std::optional<TensorView<const T>>, Tensor[] std::span<const TensorView<const T>>, int and "
      "SymInt std::int64_t, float double, bool bool, str std::string_view, T[] std::span<const T>, T? "
      "std::optional<T>; a returned Tensor is TensorView<T>");

  template <std::size_t... a, std::size_t... r>
  static void run(Host& host, std::span<const Value> arguments, std::span<const Result> results,
                  std::index_sequence<a...>, std::index_sequence<r...>) {
    std::tuple<Parameter<typename P::template at<1 + a>>...> in{
        Parameter<typename P::template at<1 + a>>(arguments[a])...};
    std::tuple<ResultParameter<typename P::template at<1 + kArguments + r>>...> out{
        ResultParameter<typename P::template at<1 + kArguments + r>>(host, static_cast<int>(r),
                                                                     results[r])...};
    call_kernel<C, F, T...>(host, std::get<a>(in).get()..., std::get<r>(out).get()...);
  }

  template <std::size_t... r>
  static Kernel make(std::index_sequence<r...>) {
    return {C::device, input_elements<P, 1>(std::make_index_sequence<kArguments>{}),
            vector_of<ElementType>(ResultParameter<typename P::template at<1 + kArguments + r>>::element...),
            vector_of<bool>(ResultParameter<typename P::template at<1 + kArguments + r>>::data_sized...),
            [](Host& host, std::span<const Value> arguments, std::span<const Result> results) {
              run(host, arguments, results, std::make_index_sequence<kArguments>{},
                  std::make_index_sequence<kReturns>{});
            }};
  }

 public:
  static Kernel make() { return make(std::make_index_sequence<kReturns>{}); }
};

// A shape rule: f(arguments…) -> Shape, a std::tuple of them, or std::vector<Shape> for Tensor[].

inline std::vector<std::vector<Shape>> shapes_of(Shape shape) { return {{std::move(shape)}}; }
inline std::vector<std::vector<Shape>> shapes_of(std::vector<Shape> shapes) { return {std::move(shapes)}; }
template <class Tuple>
std::vector<std::vector<Shape>> shapes_of(Tuple shapes) {
  return std::apply([](auto&... s) { return std::vector<std::vector<Shape>>{{std::move(s)}...}; }, shapes);
}

template <class R>
constexpr bool shapes_fit(const Schema& schema) {
  if constexpr (std::is_same_v<R, std::vector<Shape>>) {
    return schema.returns[0].list;
  } else if constexpr (std::is_same_v<R, Shape>) {
    return schema.return_count == 1 && !schema.returns[0].list;
  } else {
    return schema.return_count == std::tuple_size_v<R>;
  }
}

template <const Schema& schema, class F>
class ShapeBinding {
  using P = typename Traits<F>::Parameters;
  static constexpr std::size_t kArguments = schema.argument_count;
  static_assert(P::size == kArguments, "a shape rule takes each argument of the schema");

  template <std::size_t... i>
  static constexpr bool fits(std::index_sequence<i...>) {
    constexpr auto numeric = []<class A>(std::type_identity<A>, Kind kind) {
      return kind != Kind::sym_int || std::is_same_v<A, Dim> || std::is_same_v<A, Shape> ||
             std::is_same_v<A, std::optional<Dim>>;
    };
    return arguments_fit<schema, P, 0>(std::index_sequence<i...>{}) &&
           (numeric(std::type_identity<typename P::template at<i>>{}, schema.arguments[i].type.kind) && ...);
  }
  static_assert(
      fits(std::make_index_sequence<kArguments>{}),
      "a parameter of the shape rule does not fit its argument in the schema: Tensor is const Shape&, "
      "Tensor? std::optional<Shape>, Tensor[] const std::vector<Shape>&, int std::int64_t, SymInt Dim, "
      "float double, bool bool, str std::string_view, T[] std::span<const T>, SymInt[] const Shape&, T? "
      "std::optional<T>");
  static_assert(
      shapes_fit<std::remove_cvref_t<typename Traits<F>::Result>>(schema),
      "a shape rule returns Shape for Tensor, std::tuple<Shape, …> for several, std::vector<Shape> for "
      "Tensor[]");

  template <std::size_t... i>
  static std::vector<std::vector<Shape>> run(std::span<const Value> arguments, std::index_sequence<i...>) {
    std::tuple<Parameter<typename P::template at<i>>...> in{
        Parameter<typename P::template at<i>>(arguments[i])...};
    return shapes_of(call<F>(std::get<i>(in).get()...));
  }

 public:
  static std::vector<std::vector<Shape>> run(std::span<const Value> arguments) {
    return run(arguments, std::make_index_sequence<kArguments>{});
  }
};

}  // namespace detail
}  // namespace opbridge::op
