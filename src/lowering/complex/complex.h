// Complex tensors. ONNX's arithmetic takes no complex numbers, so a complex tensor becomes two real ones. At
// the inputs and outputs of the model it is one real tensor of pairs with a last dim of size 2, as in
// torch.view_as_real.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "opbridge/registry.h"
#include "opbridge/symbolic.h"
#include "torch/traits.h"

namespace opbridge::lowering {

struct Complex {
  Value re, im;  // a real tensor has no `im`
};

// The element type of the parts: float32 for complex64, float64 for complex128, `type` itself if it is real.
ElementType part_type(ElementType type);

// The tensor of pairs for a complex tensor; a real tensor is returned as it is.
ir::TensorType in_pairs(ir::TensorType type);
ir::Weight in_pairs(ir::Weight weight);

// For mappings that take and return complex tensors as pairs: whether PyTorch's argument is complex.
bool is_in_pairs(const GraphBuilder& g, std::string_view argument);

class ComplexLowering {
 public:
  // `values` maps the program's real tensors to ONNX values.
  ComplexLowering(GraphBuilder& g, const ValueMap& values, BodyLowering& bodies)
      : g_(g), values_(values), bodies_(bodies) {}

  // Whether one of the node's arguments or results is complex.
  static bool concerns(const ir::Node& node);

  void set(const ir::Value* value, Complex parts) { parts_[value] = parts; }
  void set_pairs(const ir::Value* value, Value pairs);
  Value pairs(const ir::Value* value);

  // Returns the results of the node. `symbolic` is its mapping for real tensors, or null. Throws
  // Error(unsupported) if the operator is not supported for complex tensors.
  std::vector<Complex> lower(const ir::Node& node, const Symbolic* symbolic);

 private:
  class Call;
  struct Special;
  static const std::unordered_map<std::string_view, Special>& specials();

  // The value that replaces a complex argument in a call of the mapping for real tensors.
  enum class Part : uint8_t { real, imaginary, size, is_nonzero, none };
  using Selector =
      std::function<Part(std::string_view argument, size_t index)>;  // index in a list of tensors

  Complex parts(const ir::Value* value) const;
  void refuse_complex(const ir::Node& node, std::string_view argument) const;
  Complex from_pairs(Value pairs, const ir::Value* value);
  std::vector<Value> call(const ir::Node& node, const Symbolic& symbolic, const Selector& select);
  std::vector<Complex> call_in_pairs(const ir::Node& node, const Symbolic& symbolic);
  std::vector<Value> call(const ir::Node& node, const Symbolic& symbolic, Part part);
  std::vector<Complex> call_by_rule(const ir::Node& node, const Symbolic& symbolic, torch::ComplexRule rule);
  std::vector<Complex> lower_by_parts(const ir::Node& node, const Symbolic& symbolic);
  std::vector<Complex> lower_deviation(const ir::Node& node, const Symbolic& symbolic);
  struct Product;
  static const Product* product_of(std::string_view op);
  Complex lower_product(const ir::Node& node, const Symbolic& symbolic, const Product& product);

  GraphBuilder& g_;
  const ValueMap& values_;
  BodyLowering& bodies_;
  std::unordered_map<const ir::Value*, Complex> parts_;
  ir::Graph shadows_;  // holds the calls of mappings for real tensors
};

}  // namespace opbridge::lowering
