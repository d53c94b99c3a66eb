// Converts TypeProto to ir::Type.
#pragma once

#include <string_view>

#include "opbridge/ir.h"

namespace opbridge::onnx {

// Reads all types of one model. Unnamed unknown dims are distinguished by number.
class TypeReader {
 public:
  // A sequence becomes a list of one element. Anything else that is not a tensor becomes a tensor of
  // undefined element type.
  ir::Type read(std::string_view message);

 private:
  ir::TensorType read_tensor(std::string_view message);
  Dim read_dim(std::string_view message);

  int unknown_dims_ = 0;
};

}  // namespace opbridge::onnx
