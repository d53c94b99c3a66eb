// Convolutions of batches.
#pragma once

#include <optional>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

struct Convolution {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
  std::vector<int64_t> output_padding;

  // The parameters with one number for each axis, checked.
  Convolution of_axes(const GraphBuilder& g, size_t axes) const;
};

// The convolution of a batch. `pads` are in ONNX's order: the begins of all axes, then the ends.
Value convolution_of_batch(GraphBuilder& g, Value x, Value weight, std::optional<Value> bias,
                           const Convolution& c, std::vector<int64_t> pads);

// The same as a matrix product of gathered windows, for types that Conv or a runtime does not take. The image
// must have a constant size.
Value convolution_by_products(GraphBuilder& g, Value x, Value weight, std::optional<Value> bias,
                              const Convolution& c, std::vector<int64_t> pads);

}  // namespace opbridge::lowering
