// a + factor * b, on the CPU and on NVIDIA GPUs.
#include "opbridge/operator.h"

using namespace opbridge::op;

// Defined in scaled_add.cu.
template <class T>
void launch_scaled_add(CudaStream stream, const T* a, const T* b, T factor, T* out, std::int64_t size);

OPBRIDGE_OPERATOR("example::scaled_add(Tensor a, Tensor b, float factor) -> Tensor")
    .shape([](const Shape& a, const Shape& b, double) {
      require_same_shape(a, b, "a and b");
      return a;
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> a, TensorView<const T> b, double factor,
                     TensorView<T> out) {
           context.parallel_for(out.size(), 16384, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) out[i] = a[i] + static_cast<T>(factor) * b[i];
           });
         })
    .cuda(floating_types, []<class T>(CudaContext& context, TensorView<const T> a, TensorView<const T> b,
                                      double factor, TensorView<T> out) {
      launch_scaled_add(context.stream(), a.data(), b.data(), static_cast<T>(factor), out.data(), out.size());
    });
