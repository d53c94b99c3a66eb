// Operators for test_operator_cuda.py: what examples/cuda_operator leaves out.
#include "opbridge/operator.h"

using namespace opbridge::op;

// Defined in cuda_ops.cu. The first one waits for the number of values that it has found.
template <class T>
std::int64_t find_positive(CudaStream stream, const T* x, std::int64_t size, T* found, std::int64_t* count);
template <class T>
void copy(CudaStream stream, const T* from, T* to, std::int64_t size);
template <class T>
void multiply(CudaStream stream, const T* a, const T* b, T* out, std::int64_t size);

// An output that the data sizes, and scratch memory. On a GPU the values come in any order.
OPBRIDGE_OPERATOR("cudatest::positive(Tensor x) -> Tensor")
    .shape([](const Shape&) { return Shape{Dim::from_data()}; })
    .cpu(floating_types,
         []<class T>(Context&, TensorView<const T> x, Output<T> out) {
           std::vector<T> found;
           for (const T value : x) {
             if (value > 0) found.push_back(value);
           }
           std::copy(found.begin(), found.end(),
                     out.allocate({static_cast<std::int64_t>(found.size())}).begin());
         })
    .cuda(floating_types, []<class T>(CudaContext& context, TensorView<const T> x, Output<T> out) {
      const std::span<T> found = context.scratch<T>(x.size());
      const std::span<std::int64_t> count = context.scratch<std::int64_t>(1);
      const std::int64_t size =
          find_positive(context.stream(), x.data(), x.size(), found.data(), count.data());
      copy<T>(context.stream(), found.data(), out.allocate({size}).data(), size);
    });

// An optional input, and a gradient.
OPBRIDGE_OPERATOR("cudatest::weigh(Tensor x, Tensor? weight=None) -> Tensor")
    .shape([](const Shape& x, const std::optional<Shape>& weight) {
      if (weight) require_same_shape(x, *weight, "x and weight");
      return x;
    })
    .cpu(floating_types,
         []<class T>(Context&, TensorView<const T> x, std::optional<TensorView<const T>> weight,
                     TensorView<T> out) {
           for (std::int64_t i = 0; i < x.size(); ++i) out[i] = weight ? x[i] * (*weight)[i] : x[i];
         })
    .cuda(floating_types,
          []<class T>(CudaContext& context, TensorView<const T> x, std::optional<TensorView<const T>> weight,
                      TensorView<T> out) {
            multiply(context.stream(), x.data(), weight ? weight->data() : nullptr, out.data(), x.size());
          })
    .backward(floating_types,
              []<class T>(Context&, TensorView<const T> grad, TensorView<const T> x,
                          std::optional<TensorView<const T>> weight, std::optional<TensorView<T>> grad_x,
                          std::optional<TensorView<T>> grad_weight) {
                for (std::int64_t i = 0; i < x.size(); ++i) {
                  if (grad_x) (*grad_x)[i] = weight ? grad[i] * (*weight)[i] : grad[i];
                  if (grad_weight) (*grad_weight)[i] = grad[i] * x[i];
                }
              })
    .cuda_backward(floating_types,
                   []<class T>(CudaContext& context, TensorView<const T> grad, TensorView<const T> x,
                               std::optional<TensorView<const T>> weight, std::optional<TensorView<T>> grad_x,
                               std::optional<TensorView<T>> grad_weight) {
                     const CudaStream stream = context.stream();
                     const T* weights = weight ? weight->data() : nullptr;
                     if (grad_x) multiply(stream, grad.data(), weights, grad_x->data(), x.size());
                     if (grad_weight) multiply(stream, grad.data(), x.data(), grad_weight->data(), x.size());
                   });
