// The status that a call of ONNX Runtime's C API returns.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>

#include "library.h"

namespace opbridge::op::detail {

class Status {
 public:
  Status(const OrtApi& api, OrtStatus* status) : api_(api), status_(status) {}
  ~Status() {
    if (status_ != nullptr) api_.ReleaseStatus(status_);
  }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  bool ok() const { return status_ == nullptr; }
  std::string message() const { return api_.GetErrorMessage(status_); }

 private:
  const OrtApi& api_;
  OrtStatus* status_;
};

inline void check(const OrtApi& api, OrtStatus* status) {
  const Status owned(api, status);
  if (!owned.ok()) throw Error(ErrorCode::internal, owned.message());
}

}  // namespace opbridge::op::detail
