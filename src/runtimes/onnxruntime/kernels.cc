#include "runtimes/onnxruntime/kernels.h"

#include <algorithm>
#include <array>

namespace opbridge::onnxruntime {
namespace {

struct Kernel {
  std::string_view op, variable;
  int first_version, last_version;
  onnx::TypeSet types;
};

constexpr Kernel kernels[] = {
// sorted by name
#include "runtimes/onnxruntime/kernels.inc"
};

}  // namespace

std::optional<onnx::TypeSet> kernel_types(const onnx::OpSchema& schema, const onnx::TypeParameter& variable) {
  if (!schema.domain().empty()) return std::nullopt;
  for (const Kernel& kernel : std::ranges::equal_range(kernels, schema.name(), {}, &Kernel::op)) {
    if (kernel.variable == variable.name() && kernel.first_version <= schema.since_version &&
        schema.since_version <= kernel.last_version) {
      // If no type is allowed by ONNX, another version of the operator uses the name for another variable.
      if ((kernel.types.bits & variable.allowed.bits) == 0) return std::nullopt;
      return kernel.types;
    }
  }
  return std::nullopt;
}

}  // namespace opbridge::onnxruntime
