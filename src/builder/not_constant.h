// The error of a mapping that needs a constant, for a number that is known only when the model runs.
#pragma once

#include <utility>

#include "opbridge/symbolic.h"

namespace opbridge {

// Whoever knows the call says which argument `number` is.
class NotConstant : public Error {
 public:
  explicit NotConstant(Scalar number)
      : Error(ErrorCode::unsupported, "a number known only at run time is given where a constant is needed"),
        number_(std::move(number)) {}

  const Scalar& number() const { return number_; }

 private:
  Scalar number_;
};

}  // namespace opbridge
