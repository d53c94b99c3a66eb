// A value of the ONNX graph that a lowering builds. Included by opbridge/operator.h.
#pragma once

#include <cstdint>

#include "opbridge/element_type.h"
#include "opbridge/error.h"
#include "opbridge/operator/shape.h"
#include "opbridge/operator_abi.h"

namespace opbridge::op {

namespace detail {

// The host reports its own error if it has one; otherwise this text is shown.
inline void check_onnx_host(int status) {
  if (status != 0) throw Error(ErrorCode::invalid_argument, "the lowering cannot be built");
}

}  // namespace detail

// Cheap to copy; empty if default-constructed. Valid until the lowering returns.
class Value {
 public:
  Value() = default;
  Value(opbridge_value handle, const opbridge_onnx_host* host) : handle_(handle), host_(host) {}
  explicit operator bool() const { return handle_ != 0; }
  opbridge_value handle() const { return handle_; }

  // ElementType::undefined if unknown.
  ElementType element_type() const { return static_cast<ElementType>(type().element_type); }
  bool ranked() const { return type().rank >= 0; }
  std::int64_t rank() const { return ranked_type().rank; }  // throws where unknown
  Shape dims() const {                                      // throws where unknown
    const opbridge_tensor_type t = ranked_type();
    Shape shape;
    for (std::int32_t i = 0; i < t.rank; ++i) shape.emplace_back(t.dims[i], host_->sizes);
    return shape;
  }
  Dim dim(std::int64_t axis) const {  // negative axes count from the end
    const opbridge_tensor_type t = ranked_type();
    const std::int64_t index = axis < 0 ? axis + t.rank : axis;
    if (index < 0 || index >= t.rank) {
      throw Error(ErrorCode::invalid_argument, "dim " + std::to_string(axis) + " of a tensor of rank " +
                                                   std::to_string(t.rank) + " does not exist");
    }
    return Dim(t.dims[index], host_->sizes);
  }

 private:
  opbridge_tensor_type type() const {
    if (handle_ == 0) throw Error(ErrorCode::invalid_argument, "an empty value has no type");
    opbridge_tensor_type result{};
    detail::check_onnx_host(host_->type(host_->user, handle_, &result));
    return result;
  }
  opbridge_tensor_type ranked_type() const {
    const opbridge_tensor_type t = type();
    if (t.rank < 0) throw Error(ErrorCode::invalid_argument, "the rank of a value is not known");
    return t;
  }

  opbridge_value handle_ = 0;
  const opbridge_onnx_host* host_ = nullptr;
};

}  // namespace opbridge::op
