// Computes 2 a + b element by element: an operator to start from.
#include "opbridge/operator.h"

using namespace opbridge::op;

OPBRIDGE_OPERATOR("custom::my_add(Tensor a, Tensor b) -> Tensor")
    .shape([](const Shape& a, const Shape& b) {
      require_same_shape(a, b, "a and b");
      return a;
    })
    .cpu(numeric_types,
         []<class T>(Context& context, TensorView<const T> a, TensorView<const T> b, TensorView<T> out) {
           context.parallel_for(out.size(), 16384, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(2 * a[i] + b[i]);
           });
         })
    .backward(floating_types,
              []<class T>(Context&, TensorView<const T> grad, TensorView<const T>, TensorView<const T>,
                          std::optional<TensorView<T>> grad_a, std::optional<TensorView<T>> grad_b) {
                for (std::int64_t i = 0; i < grad.size(); ++i) {
                  if (grad_a) (*grad_a)[i] = 2 * grad[i];
                  if (grad_b) (*grad_b)[i] = grad[i];
                }
              });
