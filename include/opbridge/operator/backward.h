// Binds the gradient of an operator, f(Context& or CudaContext&, gradients of returns…, arguments…, gradients
// of tensors…), as a separate operator. Included by opbridge/operator.h; authors of operators need nothing
// from it.
#pragma once

#include "opbridge/operator/binding.h"

namespace opbridge::op::detail {

template <const Schema& schema>
struct TensorArguments {
  static constexpr std::size_t count = schema.tensor_count();
  static constexpr std::array<std::size_t, count> indices = [] {
    std::array<std::size_t, count> result{};
    for (std::size_t i = 0, n = 0; i < schema.argument_count; ++i) {
      if (schema.arguments[i].type.is_tensor()) result[n++] = i;
    }
    return result;
  }();
};

template <class P>
inline constexpr bool is_gradient = false;
template <class T>
inline constexpr bool is_gradient<std::optional<TensorView<T>>> = !std::is_const_v<T>;

template <const Schema& schema, class C, class F, class... T>
class BackwardBinding {
  using P = typename Traits<F, T...>::Parameters;
  using Tensors = TensorArguments<schema>;
  static constexpr std::size_t kReturns = schema.return_count, kArguments = schema.argument_count;
  static constexpr std::size_t kFirstGradient = 1 + kReturns + kArguments;
  static_assert(!schema.returns[0].list,
                "the gradient of an operator that returns Tensor[] is not supported");
  static_assert(
      P::size == kFirstGradient + Tensors::count,
      "a backward takes Context&, the gradient of each return, each argument of the schema, then the "
      "gradient of each tensor argument");
  static_assert(takes_context<P, C>,
                "a kernel of .backward takes Context&, one of .cuda_backward CudaContext&");

  template <std::size_t i>
  using Incoming = typename P::template at<1 + i>;
  template <std::size_t i>
  using Argument = typename P::template at<1 + kReturns + i>;
  template <std::size_t i>
  using Outgoing = typename P::template at<kFirstGradient + i>;

  template <std::size_t... r, std::size_t... t>
  static constexpr bool fits(std::index_sequence<r...>, std::index_sequence<t...>) {
    return (Parameter<Incoming<r>>::fits(SchemaType{}) && ...) &&
           arguments_fit<schema, P, 1 + kReturns>(std::make_index_sequence<kArguments>{}) &&
           ((is_gradient<Outgoing<t>> ? !schema.arguments[Tensors::indices[t]].type.list
                                      : std::is_same_v<Outgoing<t>, NoGradient>)&&...);
  }
  static_assert(
      fits(std::make_index_sequence<kReturns>{}, std::make_index_sequence<Tensors::count>{}),
      "the gradient of a return is TensorView<const T>, arguments are those of a kernel, the gradient of a "
      "tensor argument is std::optional<TensorView<T>>, or NoGradient");

  template <std::size_t... t>
  static constexpr bool writes_any(std::index_sequence<t...>) {
    return (is_gradient<Outgoing<t>> || ...);
  }
  static_assert(writes_any(std::make_index_sequence<Tensors::count>{}),
                "a backward that writes no gradient: leave it out");

  // `wanted` and `results` have one element for each differentiable tensor.
  template <std::size_t t>
  static auto outgoing(std::span<const bool> wanted, std::span<const Result> results) {
    if constexpr (is_gradient<Outgoing<t>>) {
      const std::vector<std::size_t> all = differentiable();
      const auto position =
          static_cast<std::size_t>(std::find(all.begin(), all.end(), Tensors::indices[t]) - all.begin());
      return ResultParameter<Outgoing<t>>(wanted[position] ? results[position] : Result{}).get();
    } else {
      return NoGradient{};
    }
  }

  template <std::size_t... r, std::size_t... a, std::size_t... t>
  static void run(Host& host, std::span<const Value> values, std::span<const Result> results,
                  std::index_sequence<r...>, std::index_sequence<a...>, std::index_sequence<t...>) {
    const Parameter<std::span<const bool>> wanted(values[kReturns + kArguments]);
    std::tuple<Parameter<Incoming<r>>...> in{Parameter<Incoming<r>>(values[r])...};
    std::tuple<Parameter<Argument<a>>...> arguments{Parameter<Argument<a>>(values[kReturns + a])...};
    call_kernel<C, F, T...>(host, std::get<r>(in).get()..., std::get<a>(arguments).get()...,
                            outgoing<t>(wanted.get(), results)...);
  }

  template <std::size_t... t>
  static std::vector<ElementType> output_elements(std::index_sequence<t...>) {
    std::vector<ElementType> elements;
    (
        [&]<class G>(std::type_identity<G>) {
          if constexpr (is_gradient<G>) elements.push_back(ResultParameter<G>::element);
        }(std::type_identity<Outgoing<t>>{}),
        ...);
    return elements;
  }

  template <std::size_t... t>
  static std::vector<std::size_t> differentiable(std::index_sequence<t...>) {
    std::vector<std::size_t> indices;
    ((is_gradient<Outgoing<t>> ? indices.push_back(Tensors::indices[t]) : void()), ...);
    return indices;
  }

 public:
  static Kernel make() {
    std::vector<ElementType> outputs = output_elements(std::make_index_sequence<Tensors::count>{});
    std::vector<bool> data_sized(outputs.size(), false);
    return {C::device, input_elements<P, 1>(std::make_index_sequence<kReturns + kArguments>{}),
            std::move(outputs), std::move(data_sized),
            [](Host& host, std::span<const Value> values, std::span<const Result> results) {
              run(host, values, results, std::make_index_sequence<kReturns>{},
                  std::make_index_sequence<kArguments>{}, std::make_index_sequence<Tensors::count>{});
            }};
  }

  // The indices of the arguments whose gradients the kernel writes.
  static std::vector<std::size_t> differentiable() {
    return differentiable(std::make_index_sequence<Tensors::count>{});
  }

  // A gradient has the shape of its argument; one that is not wanted is empty.
  static std::vector<std::vector<Shape>> shape(std::span<const Value> values) {
    const Parameter<std::span<const bool>> wanted(values[kReturns + kArguments]);
    const std::vector<std::size_t> arguments = differentiable();
    require(wanted.size == arguments.size(), "wanted must have one flag for each gradient");
    std::vector<std::vector<Shape>> shapes;
    for (const std::size_t argument : arguments) {
      const bool want = wanted.values[shapes.size()];
      const auto* shape = std::get_if<Shape>(&values[kReturns + argument]);
      require(!want || shape != nullptr, [&] {
        return "the gradient of " + std::string(schema.arguments[argument].name) +
               " is wanted, but the argument is not given";
      });
      shapes.push_back({want ? *shape : Shape{0}});
    }
    return shapes;
  }
};

}  // namespace opbridge::op::detail
