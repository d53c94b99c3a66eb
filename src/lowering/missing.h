// Collects all calls that cannot be lowered into one error.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "opbridge/convert.h"
#include "opbridge/registry.h"

namespace opbridge {

class MissingReport {
 public:
  MissingReport(const SymbolicRegistry& registry, const ConvertOptions& options)
      : registry_(&registry), options_(&options) {}

  void add_missing(const ir::Node& node);
  void add_refused(const ir::Node& node, const Error& error);
  const std::vector<MissingOperator>& missing() const { return missing_; }
  bool empty() const { return missing_.empty() && refused_.empty(); }
  // Error(unsupported), or Error(invalid_node) if every entry is one.
  Error error() const;
  // Throws `error()`, or the original exception if a mapping in another language has raised the only error.
  [[noreturn]] void raise() const;

 private:
  struct Refused {
    std::string message;
    std::vector<std::string> locations;
    size_t count = 0;
    ErrorCode code;
    std::exception_ptr original;  // of a mapping in another language
  };
  const SymbolicRegistry* registry_;
  const ConvertOptions* options_;
  std::vector<MissingOperator> missing_;  // in order of appearance
  std::vector<Refused> refused_;
};

}  // namespace opbridge
