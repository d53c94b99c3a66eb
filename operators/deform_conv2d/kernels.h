// The kernels of deform_conv2d. They are compiled once, in kernels.cc, for two libraries
// (operators/CMakeLists.txt).
#pragma once

#include "geometry.h"
#include "opbridge/operator.h"

namespace opbridge::op::deform_conv2d {

// For float, double, Half and BFloat16. `mask` and `bias` may be null.
template <class T>
void run(Context& context, const Geometry& g, TensorView<const T> input, TensorView<const T> weight,
         TensorView<const T> offset, const T* mask, const T* bias, TensorView<T> out);

// Output buffers of the gradients, each with the shape of its variable; null if a gradient is not requested.
template <class T>
struct Gradients {
  T* input = nullptr;
  T* weight = nullptr;
  T* offset = nullptr;
  T* mask = nullptr;
  T* bias = nullptr;

  bool needs_samples() const { return input != nullptr || weight != nullptr; }
  bool needs_gradient_of_samples() const { return input != nullptr || offset != nullptr || mask != nullptr; }
};

// For float and double. Adds to the gradients.
template <class T>
void run_backward(Context& context, const Geometry& g, TensorView<const T> grad, TensorView<const T> input,
                  TensorView<const T> weight, TensorView<const T> offset,
                  std::optional<TensorView<const T>> mask, const Gradients<T>& gradients);

}  // namespace opbridge::op::deform_conv2d
