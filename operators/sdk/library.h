// The operators of one library, as its adapter to a host sees them.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "opbridge/operator.h"

namespace opbridge::op::detail {

// Of the author, or made of one of float32 for a half type, which `half` then is: `Kernel::run` knows float32
// in its place.
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

// All operators in the order of their registration; addresses stay.
const std::deque<LibraryOperator>& operators();

// Defined by each adapter: called once for each operator while the library is being loaded. What it throws
// becomes the `error` of the table.
void register_with_host(std::size_t index);

// The shapes of all outputs, checked: no negative sizes. What it and the rule throw is without the operator's
// name, which caught_error adds.
std::vector<std::vector<Shape>> infer_shapes(const LibraryOperator& op, std::span<const Value> arguments);

// The kernel for these arguments' element types (`types` has one for each tensor argument, undefined where it
// is absent), on one device, or on any. Throws an error that lists the element types there are.
const LibraryKernel& select_kernel(const std::vector<LibraryKernel>& kernels,
                                   std::span<const ElementType> types,
                                   std::optional<Device> device = std::nullopt);

// The author's kernels, and after them those of half types made of those of float32 on the CPU: they convert
// the tensors that kernels of float64 show to be of the operator's element type. None where the author has
// given one.
std::vector<LibraryKernel> with_half_types(const std::vector<Kernel>& given);

// `shapes` are those that the rule has given. Throws where an output that the kernel allocates is not so.
void run(const LibraryKernel& kernel, Host& host, std::span<const std::vector<Shape>> shapes,
         std::span<const Value> arguments, std::span<const Result> results);

// The outputs that the kernel of a call allocates, against their shape rule.
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

// The element type of each tensor argument, undefined where absent; throws where a list mixes types.
std::vector<ElementType> element_types(const LibraryOperator& op, std::span<const Value> arguments);

// The arguments with shapes in the place of tensors, as shape rules take them.
std::vector<Value> with_shapes(std::span<const Value> arguments);

// The sizes of a shape that has numbers only.
std::vector<std::int64_t> numbers(const Shape& shape);

// The value of a default as the schema line writes it.
Value default_value(const SchemaArgument& argument);

// "custom::my_add: message", of what a catch (...) has caught.
Error caught_error(const LibraryOperator& op);

}  // namespace opbridge::op::detail
