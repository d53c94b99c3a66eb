// Errors of mappings that are written in another language.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "opbridge/error.h"

namespace opbridge {

// Carries the exception that the language's binding caught, which holds what this one cannot, as a traceback.
class ForeignError : public Error {
 public:
  ForeignError(ErrorCode code, std::string message, std::string where, std::exception_ptr original)
      : Error(code, std::move(message), std::move(where)), original_(std::move(original)) {}

  const std::exception_ptr& original() const { return original_; }

 private:
  std::exception_ptr original_;
};

}  // namespace opbridge
