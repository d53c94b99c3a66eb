// TypeProto to Type.
#pragma once

#include <string_view>

#include "opbridge/ir.h"

namespace opbridge::onnx {

// For all types of one model: dims of which the file says nothing are told apart by number.
class TypeReader {
 public:
  // A sequence becomes a list of one element. What is neither a tensor nor a sequence of tensors becomes a
  // tensor of undefined element type.
  ir::Type read(std::string_view message);

 private:
  ir::TensorType read_tensor(std::string_view message);
  Dim read_dim(std::string_view message);

  int unknown_dims_ = 0;
};

}  // namespace opbridge::onnx
