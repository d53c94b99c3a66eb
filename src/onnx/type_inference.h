// Element types through an operator's signature: from the types of its inputs, what its type variables stand
// for, and so the types of its outputs; or which input does not fit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "onnx/schema_table.h"
#include "opbridge/element_type.h"

namespace opbridge::onnx {

// A tensor whose element type the signature does not allow.
struct TypeConflict {
  std::size_t variable;              // index into OpSchema::types()
  std::optional<std::size_t> input;  // which one; missing where the type attribute is to blame
  ElementType found;
  TypeSet expected;
  std::optional<std::size_t> as_input;  // the earlier input with which this one must agree
};

class TypeResolution {
 public:
  // The first input, or else the attribute, that does not fit.
  const std::optional<TypeConflict>& conflict() const { return conflict_; }

  // The element type of the index-th output. Missing where the signature leaves it open (the outputs of If
  // and Loop), where the inputs that would tell are of unknown type, and where the output is no tensor.
  std::optional<ElementType> output(std::size_t index) const;

  // What the type variable (an index into OpSchema::types()) stands for.
  std::optional<ElementType> variable(std::size_t index) const { return variables_.at(index); }

 private:
  friend TypeResolution resolve(const OpSchema&, std::span<const std::optional<ElementType>>,
                                std::optional<ElementType>);
  explicit TypeResolution(const OpSchema& schema) : schema_(&schema) {}

  const OpSchema* schema_;
  std::array<std::optional<ElementType>, OpSchema::most_types> variables_;
  std::optional<TypeConflict> conflict_;
};

// `inputs` holds the element types of the node's inputs: none for an input that is left out, is no tensor, or
// is of unknown type; such an input is not checked. Inputs beyond the signature's are not looked at.
// `type_attribute` is what the attribute named by type_attribute_of says; missing where the node does not
// have it: the operator's own default holds then.
TypeResolution resolve(const OpSchema& schema, std::span<const std::optional<ElementType>> inputs,
                       std::optional<ElementType> type_attribute = std::nullopt);

// The attribute that decides the element type of the outputs that no input decides: "to" of Cast, "dtype" of
// RandomNormal, "output_dtype" of QuantizeLinear, all integers that number an ElementType; "value" of
// ConstantOfShape and Constant, a tensor whose element type it is. Empty for the other operators. (A Constant
// may have value_float and the like instead of a tensor: their element types do as well.)
std::string_view type_attribute_of(const OpSchema& schema);

// The conflict in words: "input 1 (B) is int64, but T is float as in input 0 (A)".
std::string describe(const OpSchema& schema, const TypeConflict& conflict);

}  // namespace opbridge::onnx
