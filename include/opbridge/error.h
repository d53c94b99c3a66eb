// The one exception type of opbridge.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace opbridge {

enum class ErrorCode {
  invalid_argument,  // the caller passed an invalid argument (a bad option, a wrong opset)
  invalid_file,      // a file is missing, truncated, or of another format
  invalid_node,      // a symbolic function built a node that ONNX does not allow
  unsupported,       // correct input that opbridge cannot convert; the message says what would help
  io,                // the operating system refused to read or write
  internal,          // a broken invariant of opbridge itself
};

// Thrown by every function of opbridge that fails. `what()` is the whole text to show: the message, and on a
// second line, if it is known, where the error occurred (a file, a node, a line of the user's model).
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message, std::string where = {})
      : std::runtime_error(where.empty() ? message : message + "\n  at " + where),
        code_(code),
        message_(std::move(message)),
        where_(std::move(where)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string where_;
};

}  // namespace opbridge
