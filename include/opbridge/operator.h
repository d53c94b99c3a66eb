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
// A kernel for NVIDIA GPUs stands beside that of the CPU. It is host code with tensors on the device, and
// calls what a .cu file among the SOURCES defines, plain CUDA that needs nothing of this header
// (examples/cuda_operator is a whole one):
//
//       .cuda(types<float, double>, []<class T>(CudaContext& context, TensorView<const T> a,
//                                               TensorView<const T> b, TensorView<T> out) {
//         launch_my_add(context.stream(), a.data(), b.data(), out.data(), out.size());
//       })
//
// Where there is no nvcc, .cu files are left out; a .cuda kernel is then checked, but no part of the library.
//
// The schema line is PyTorch's, with the argument types Tensor, int, SymInt, float, bool, str, their
// lists `T[]` and optionals `T?`, and defaults; it returns one or several Tensor, or Tensor[]. A kernel and a
// shape rule are lambdas that capture nothing and take what the line says, checked when they are compiled:
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
//                    where the data decides the size
//   -> (Tensor, …)   one for each                         returns std::tuple<Shape, …>
//   -> Tensor[]      std::span<const TensorView<T>>       returns std::vector<Shape>
//
// A CUDA kernel takes CudaContext& first, then the same types. Half and BFloat16 are bit for bit CUDA's
// __half and __nv_bfloat16. Where the CPU has kernels of float and double and none of Half or BFloat16, that
// of float serves them too: it is given tensors of float, and what it writes is rounded.
// An attribute of a node is a float32: in ONNX Runtime a `float` is what float32 holds of it.
// Inputs are contiguous. Outputs are uninitialized: a kernel writes every element. What a kernel or a shape
// rule throws (`require` throws for you) becomes the host's error, with the name of the operator before it.
// The shape rule runs before every kernel, so what it demands of shapes and arguments holds there.
//
// Where standard ONNX can say what the operator does, `.onnx` says how, and models run without the library:
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

// Whether the .cu files of this library are compiled, and with them its CUDA kernels.
#ifdef OPBRIDGE_WITH_CUDA
constexpr bool with_cuda = true;
#else
constexpr bool with_cuda = false;
#endif

// What adapters know of an operator.
struct Record {
  const Schema* schema = nullptr;
  int version = 1;
  ShapeFunction shape = nullptr;
  std::vector<Kernel> kernels;
  // The gradient: an operator of its own, `name_backward`, on the gradients of all returns, then all
  // arguments, then `bool[] wanted` with one flag for each return, which are the gradients of the tensors
  // listed in `differentiable` (as indices of arguments). Empty where there is none.
  std::vector<Kernel> backward;
  ShapeFunction backward_shape = nullptr;
  std::vector<std::size_t> differentiable;
  std::vector<Lowering> lowerings;
  std::string error;  // what is wrong with it, where only its registration can tell
};

// Adds to the table of the library that this file is linked into.
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
  // for each combination. Without any, the lambda names the types itself. Further calls add kernels; the
  // first one whose element types are those of the call runs.
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

  // A kernel for tensors in the memory of a GPU, else as cpu(). It puts its work on context.stream() and need
  // not wait for it.
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
  // each argument as a kernel does, then for each Tensor and Tensor? argument its gradient to write, of the
  // same shape: std::optional<TensorView<T>>, empty where nobody asks for it, or NoGradient for an argument
  // that has none. Before it the shape rule runs on the arguments, and the gradients of the returns are
  // checked to have the shapes that it gives.
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

  // Standard ONNX in the place of the operator's own node, from that opset on; of several, the one of the
  // greatest opset up to the model's. Takes GraphBuilder&, then each argument: Tensor is Value, Tensor?
  // std::optional<Value>, Tensor[] std::span<const Value>, the others as in a shape rule. Returns Value, a
  // std::tuple or std::array of them, std::vector<Value> for Tensor[]. See opbridge/operator/lowering.h.
  template <class F>
  ShapedOperator&& onnx(Since since, F) && {
    record_.lowerings.push_back({since.opset, &detail::LoweringBinding<schema, F>::run});
    return std::move(*this);
  }

  // The version of the domain's opset from which this schema holds; 1 where it is not said.
  ShapedOperator&& version(int version) && {
    record_.version = version;
    return std::move(*this);
  }

  detail::Record take() && { return std::move(record_); }

 private:
  // A CUDA kernel that is no part of the library is checked like any other, but nothing refers to what it
  // calls.
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
        record_.error = "all kernels of its gradient must have the gradients of the same arguments";
      }
      record_.backward.push_back(Binding::make());
      record_.backward_shape = &Binding::shape;
      record_.differentiable = differentiable;
    }
    return std::move(*this);
  }

  detail::Record record_;
};

// The end of an operator: puts it into the table of its library.
class Registration {
 public:
  template <const detail::Schema& schema>
  Registration(ShapedOperator<schema>&& op) {  // NOLINT: so that the macro's `= Operator<…>()…` reads on
    detail::add_operator(std::move(op).take());
  }
};

// The start of every operator: its shape rule comes first.
template <detail::FixedString line>
class Operator {
 public:
  // The shapes of the outputs; the place to check shapes and arguments, since it runs before every kernel.
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
