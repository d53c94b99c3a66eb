// The operators of a library, as seen by its adapter to a host.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "opbridge/operator.h"

namespace opbridge::op::detail {

// A kernel of the author, or one derived for a half type from a float32 kernel. `half` is then that type, and
// `Kernel::run` is given float32 instead.
struct LibraryKernel : Kernel {
  ElementType half = ElementType::undefined;
};

struct LibraryOperator {
  Schema schema;
  std::string name;  // "custom::my_add"
  int version = 1;
  int backward_of = -1;
  ShapeFunction shape = nullptr;
  std::vector<Lowering> lowerings;
  std::vector<LibraryKernel> kernels;
};

// All operators in order of registration; their addresses are stable.
const std::deque<LibraryOperator>& operators();

// Defined by each adapter; called once for each operator while the library is loaded. An exception becomes
// the `error` of the table.
void register_with_host(std::size_t index);

// The shapes of all outputs, with sizes checked not to be negative. Exceptions lack the operator's name,
// which caught_error adds.
std::vector<std::vector<Shape>> infer_shapes(const LibraryOperator& op, std::span<const Value> arguments);

// The kernel for these element types on one device, or on any. `types` has an entry for each tensor argument,
// undefined if it is absent. Throws an error that lists the supported element types.
const LibraryKernel& select_kernel(const std::vector<LibraryKernel>& kernels,
                                   std::span<const ElementType> types,
                                   std::optional<Device> device = std::nullopt);

// The author's kernels, followed by those for half types derived from float32 kernels on the CPU. A derived
// kernel converts the tensors of the operator's element type; kernels for float64 show which these are. An
// author's own kernel for a half type has precedence.
std::vector<LibraryKernel> with_half_types(const std::vector<Kernel>& given);

// `shapes` are those from the shape rule. Throws if the kernel allocates an output of another shape.
void run(const LibraryKernel& kernel, Host& host, std::span<const std::vector<Shape>> shapes,
         std::span<const Value> arguments, std::span<const Result> results);

// Checks the outputs that a kernel allocates against their shape rule.
class DataSizedOutputs {
 public:
  DataSizedOutputs(const LibraryKernel& kernel, std::span<const std::vector<Shape>> shapes);

  // Both throw Error(invalid_argument).
  void allocate(int output, std::span<const std::int64_t> dims);
  void require_all() const;

 private:
  struct Expected {
    int output;
    const Shape* rule;
    bool made = false;
  };
  std::vector<Expected> outputs_;
};

// The element type of each tensor argument, undefined if absent. Throws if a list mixes types.
std::vector<ElementType> element_types(const LibraryOperator& op, std::span<const Value> arguments);

// Replaces tensors by their shapes, as shape rules take them.
std::vector<Value> with_shapes(std::span<const Value> arguments);

// The sizes of a shape without symbols.
std::vector<std::int64_t> numbers(const Shape& shape);

// The value of a default in a schema line.
Value default_value(const SchemaArgument& argument);

// Converts the exception in flight to an error "custom::my_add: message"; call it in a catch (...).
Error caught_error(const LibraryOperator& op);

}  // namespace opbridge::op::detail
