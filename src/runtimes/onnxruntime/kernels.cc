#include "runtimes/onnxruntime/kernels.h"

#include <algorithm>
#include <array>

namespace opbridge::onnx {
namespace {

struct Kernel {
  std::string_view op, variable;
  int first_version, last_version;
  TypeSet types;
};

constexpr Kernel kernels[] = {
// sorted by name
#include "runtimes/onnxruntime/kernels.inc"
};

}  // namespace

std::optional<TypeSet> runtime_types(const OpSchema& schema, const TypeParameter& variable) {
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

std::optional<ElementType> runtime_type(TypeSet has, ElementType type) {
  using enum ElementType;
  if (has.contains(type) || type == float16) return type;
  auto first_of = [&](std::initializer_list<ElementType> wider) -> std::optional<ElementType> {
    const auto found = std::ranges::find_if(wider, [&](ElementType t) { return has.contains(t); });
    return found == wider.end() ? std::nullopt : std::optional(*found);
  };
  switch (type) {
    case bfloat16:
      return first_of({float32});
    case boolean:
    case int8:
    case uint8:
    case int16:
    case uint16:
      return first_of({int32, int64, float32});
    case int32:
    case uint32:
      return first_of({int64, float64});
    default:
      return std::nullopt;
  }
}

}  // namespace opbridge::onnx
