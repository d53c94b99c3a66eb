// Write an operator once; PyTorch and ONNX Runtime both run it.
//
//   #include "opbridge/operator.h"
//   using namespace opbridge::op;
//
//   OPBRIDGE_OPERATOR("custom::my_add(Tensor a, Tensor b) -> Tensor")
//       .shape([](const Shape& a, const Shape& b) {
//         require_same_shape(a, b, "a and b");
//         return a;
//       })
//       .cpu(types<float, double>, []<class T>(Context& context, TensorView<const T> a,
//                                              TensorView<const T> b, TensorView<T> out) {
//         context.parallel_for(out.size(), 16384, [&](std::int64_t begin, std::int64_t end) {
//           for (std::int64_t i = begin; i < end; ++i) out[i] = 2 * a[i] + b[i];
//         });
//       });
//
// The CMake function opbridge_add_operators(my_ops SOURCES my_add.cc) makes two libraries of it:
// libmy_ops_torch.so, where it is torch.ops.custom.my_add, and libmy_ops_ort.so, where it is the node my_add
// of the domain custom. The mapping between them follows from the schema line (see opbridge/operator_abi.h).
//
// A kernel for NVIDIA GPUs is declared next to that for the CPU. It is host code that calls functions of a
// .cu file among the SOURCES; its tensors are in device memory. The .cu file is plain CUDA and does not need
// this header. examples/cuda_operator is a complete example:
//
//       .cuda(types<float, double>, []<class T>(CudaContext& context, TensorView<const T> a,
//                                               TensorView<const T> b, TensorView<T> out) {
//         launch_my_add(context.stream(), a.data(), b.data(), out.data(), out.size());
//       })
//
// Without nvcc, .cu files are left out; .cuda kernels are then checked, but not part of the library.
//
// The schema line is PyTorch's, with the argument types Tensor, int, SymInt, float, bool, str, their
// lists `T[]` and optionals `T?`, and defaults; it returns one or several Tensor, or Tensor[]. Kernels and
// shape rules are lambdas without captures. Their parameters follow from the line; the compiler checks them:
//
//   schema           kernel                               shape rule
//   Tensor           TensorView<const T>                  const Shape&
//   Tensor?          std::optional<TensorView<const T>>   const std::optional<Shape>&
//   Tensor[]         std::span<const TensorView<const T>> const std::vector<Shape>&
//   int, SymInt      std::int64_t                         std::int64_t or Dim; Dim for SymInt
//   float            double                               double
//   bool, str        bool, std::string_view               bool, std::string_view
//   int[], …         std::span<const std::int64_t>, …     the same; const Shape& for SymInt[]
//   int?, …          std::optional<std::int64_t>, …       the same
//   -> Tensor        TensorView<T>, or Output<T>          returns Shape
//                    if its size depends on the data
//   -> (Tensor, …)   one for each                         returns std::tuple<Shape, …>
//   -> Tensor[]      std::span<const TensorView<T>>       returns std::vector<Shape>
//
// A CUDA kernel takes CudaContext& first, then the same types. Half and BFloat16 have the memory layout of
// CUDA's __half and __nv_bfloat16. If the CPU has kernels for float and double but none for Half or BFloat16,
// the float kernel serves these too: inputs are converted to float, outputs are rounded.
// ONNX stores a `float` argument as a float32 attribute, so in ONNX Runtime it has only float32's precision.
// Inputs are contiguous. Outputs are uninitialized: a kernel writes every element. An exception of a kernel
// or a shape rule (`require` throws one) becomes the host's error, prefixed with the name of the operator.
// The shape rule runs before every kernel, so a kernel can rely on what the rule requires.
//
// If standard ONNX can express the operator, `.onnx` says how, and models run without the library:
//
//       .onnx(Since{11}, [](GraphBuilder& g, Value x, double limit) {
//         return g.op("Clip", x, g.scalar_like(x, -limit), g.scalar_like(x, limit));
//       });
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "opbridge/operator/backward.h"
#include "opbridge/operator/binding.h"
#include "opbridge/operator/lowering.h"

namespace opbridge::op {

// Element types for which a kernel is instantiated, one kernel for each: .cpu(types<float, double>, …).
template <class... T>
inline constexpr Types<T...> types{};

inline constexpr Types<float, double> floating_types{};
inline constexpr Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t> integer_types{};
inline constexpr Types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                       std::uint8_t>
    numeric_types{};

namespace detail {

// Whether the .cu files and the CUDA kernels of this library are compiled.
#ifdef OPBRIDGE_WITH_CUDA
constexpr bool with_cuda = true;
#else
constexpr bool with_cuda = false;
#endif

// An operator as the adapters for PyTorch and ONNX Runtime see it.
struct Record {
  const Schema* schema = nullptr;
  int version = 1;
  ShapeFunction shape = nullptr;
  std::vector<Kernel> kernels;
  // The gradient, a separate operator `name_backward`. It takes the gradients of all returns, then all
  // arguments, then `bool[] wanted` with one flag for each of its returns. It returns the gradients of the
  // arguments whose indices `differentiable` lists. Empty if the operator has no gradient.
  std::vector<Kernel> backward;
  ShapeFunction backward_shape = nullptr;
  std::vector<std::size_t> differentiable;
  std::vector<Lowering> lowerings;
  std::string error;  // a mistake in the operator that is found only at registration
};

// Adds an operator to the table of the library that this file is linked into.
void add_operator(Record record);

// Calls f<T…> for each combination of the element types in the lists.
template <class F, class... Chosen>
void for_each_combination(const F& f, Types<Chosen...>) {
  f.template operator()<Chosen...>();
}
template <class F, class... Chosen, class... T, class... Lists>
void for_each_combination(const F& f, Types<Chosen...>, Types<T...>, Lists... lists) {
  (for_each_combination(f, Types<Chosen..., T>{}, lists...), ...);
}

}  // namespace detail

template <const detail::Schema& schema>
class ShapedOperator {
 public:
  explicit ShapedOperator(detail::ShapeFunction shape) {
    record_.schema = &schema;
    record_.shape = shape;
  }

  // A kernel for tensors in main memory, instantiated for each element type of `types`; with several lists,
  // for each combination. Without a list, the lambda's parameters name the element types. Several calls add
  // several kernels; the first one whose element types match the call runs.
  template <class F>
  ShapedOperator&& cpu(F) && {
    return add<Context, F>();
  }
  template <class... A, class F>
  ShapedOperator&& cpu(Types<A...> types, F) && {
    return add<Context, F>(types);
  }
  template <class... A, class... B, class F>
  ShapedOperator&& cpu(Types<A...> types, Types<B...> more_types, F) && {
    return add<Context, F>(types, more_types);
  }

  // A kernel for tensors in GPU memory, with the parameters of cpu(). It launches its work on
  // context.stream() and need not wait for it.
  template <class F>
  ShapedOperator&& cuda(F) && {
    return add<CudaContext, F>();
  }
  template <class... A, class F>
  ShapedOperator&& cuda(Types<A...> types, F) && {
    return add<CudaContext, F>(types);
  }
  template <class... A, class... B, class F>
  ShapedOperator&& cuda(Types<A...> types, Types<B...> more_types, F) && {
    return add<CudaContext, F>(types, more_types);
  }

  // The gradient, for training in PyTorch. Takes Context&, the gradient of each return (TensorView<const T>),
  // each argument as a kernel does, then for each Tensor and Tensor? argument the gradient to write, of the
  // argument's shape: std::optional<TensorView<T>>, empty if it is not requested, or NoGradient for an
  // argument without a gradient. The shape rule runs first, and the gradients of the returns are checked
  // against the shapes that it returns.
  template <class F>
  ShapedOperator&& backward(F) && {
    return add_backward<Context, F>(Types<>{});
  }
  template <class... A, class F>
  ShapedOperator&& backward(Types<A...>, F) && {
    (add_backward<Context, F>(Types<A>{}), ...);
    return std::move(*this);
  }

  // The gradient on a GPU, of the same arguments as backward().
  template <class F>
  ShapedOperator&& cuda_backward(F) && {
    return add_backward<CudaContext, F>(Types<>{});
  }
  template <class... A, class F>
  ShapedOperator&& cuda_backward(Types<A...>, F) && {
    (add_backward<CudaContext, F>(Types<A>{}), ...);
    return std::move(*this);
  }

  // A lowering to standard ONNX, which replaces the operator's own node from that opset on. If there are
  // several, the one with the highest opset not above the model's is used. Takes GraphBuilder&, then each
  // argument: Tensor is Value, Tensor? std::optional<Value>, Tensor[] std::span<const Value>, the others as
  // in a shape rule. Returns Value, a std::tuple or std::array of them, or std::vector<Value> for Tensor[].
  // See opbridge/operator/lowering.h.
  template <class F>
  ShapedOperator&& onnx(Since since, F) && {
    record_.lowerings.push_back({since.opset, &detail::LoweringBinding<schema, F>::run});
    return std::move(*this);
  }

  // The first version of the domain's opset that has this schema; 1 by default.
  ShapedOperator&& version(int version) && {
    record_.version = version;
    return std::move(*this);
  }

  detail::Record take() && { return std::move(record_); }

 private:
  // A CUDA kernel that is not part of the library is checked like any other, but nothing references the
  // functions that it calls, so they need not be linked.
  template <class C>
  static constexpr bool included = C::device == detail::Device::cpu || detail::with_cuda;

  template <class C, class F, class... Lists>
  ShapedOperator&& add(Lists... lists) {
    const auto bind = [&]<class... T>() {
      using Binding = detail::KernelBinding<schema, C, F, T...>;
      static_assert(sizeof(Binding) > 0);
      if constexpr (included<C>) record_.kernels.push_back(Binding::make());
    };
    detail::for_each_combination(bind, Types<>{}, lists...);
    return std::move(*this);
  }

  template <class C, class F, class... T>
  ShapedOperator&& add_backward(Types<T...>) {
    using Binding = detail::BackwardBinding<schema, C, F, T...>;
    static_assert(sizeof(Binding) > 0);
    if constexpr (included<C>) {
      const std::vector<std::size_t> differentiable = Binding::differentiable();
      if (!record_.backward.empty() && differentiable != record_.differentiable) {
        record_.error = "all kernels of its gradient must compute the gradients of the same arguments";
      }
      record_.backward.push_back(Binding::make());
      record_.backward_shape = &Binding::shape;
      record_.differentiable = differentiable;
    }
    return std::move(*this);
  }

  detail::Record record_;
};

// Adds a finished operator to the table of its library.
class Registration {
 public:
  template <const detail::Schema& schema>
  Registration(ShapedOperator<schema>&& op) {  // NOLINT: so that the macro's `= Operator<…>()…` reads on
    detail::add_operator(std::move(op).take());
  }
};

// An operator without a shape rule, which must be its first member.
template <detail::FixedString line>
class Operator {
 public:
  // Returns the shapes of the outputs. It runs before every kernel, so it also checks shapes and arguments.
  template <class F>
  auto shape(F) && {
    return ShapedOperator<schema>(&detail::ShapeBinding<schema, F>::run);
  }

 private:
  static constexpr detail::Schema schema = detail::SchemaReader(line.view()).read();
};

}  // namespace opbridge::op

#define OPBRIDGE_CONCATENATE_(a, b) a##b
#define OPBRIDGE_UNIQUE_(name, counter) OPBRIDGE_CONCATENATE_(name, counter)
#define OPBRIDGE_OPERATOR(schema)                                              \
  [[maybe_unused]] static const ::opbridge::op::Registration OPBRIDGE_UNIQUE_( \
      opbridge_operator_, __COUNTER__) = ::opbridge::op::Operator<schema>()
