// Infers element types from an operator's signature: the input types bind its type variables, which give the
// output types. Also detects an input that does not fit.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "onnx/schema_table.h"
#include "opbridge/element_type.h"
#include "opbridge/ir.h"

namespace opbridge::onnx {

// A tensor whose element type the signature does not allow.
struct TypeConflict {
  std::size_t variable;              // index into OpSchema::types()
  std::optional<std::size_t> input;  // its index; missing if the type attribute is at fault
  ElementType found;
  TypeSet expected;
  std::optional<std::size_t> as_input;  // the earlier input that this one must match
};

class TypeResolution {
 public:
  // The first input that does not fit, or else the attribute.
  const std::optional<TypeConflict>& conflict() const { return conflict_; }

  // The element type of the output at `index`. Missing if the signature leaves it open (the outputs of If and
  // Loop), if the inputs that determine it are of unknown type, and if the output is not a tensor.
  std::optional<ElementType> output(std::size_t index) const;

  // The type to which the type variable (an index into OpSchema::types()) is bound.
  std::optional<ElementType> variable(std::size_t index) const { return variables_.at(index); }

 private:
  friend TypeResolution resolve(const OpSchema&, std::span<const std::optional<ElementType>>,
                                std::optional<ElementType>);
  explicit TypeResolution(const OpSchema& schema) : schema_(&schema) {}

  const OpSchema* schema_;
  std::array<std::optional<ElementType>, OpSchema::most_types> variables_;
  std::optional<TypeConflict> conflict_;
};

// `inputs` holds the element types of the node's inputs. Nothing stands for an input that is omitted, not a
// tensor, or of unknown type; such an input is not checked. Inputs beyond the signature's are ignored.
// `type_attribute` is the type given by the attribute that type_attribute_of names. If the node lacks that
// attribute, it is missing, and the operator's default applies.
TypeResolution resolve(const OpSchema& schema, std::span<const std::optional<ElementType>> inputs,
                       std::optional<ElementType> type_attribute = std::nullopt);

// The type to compute `type` in where only the types in `has` are available: `type` itself, or the narrowest
// of the wider ones whose results, cast back, are those of `type`. Missing if there is none.
std::optional<ElementType> wider_type(TypeSet has, ElementType type);

// The element type that the type attribute among `attributes` gives; see type_attribute_of.
std::optional<ElementType> type_attribute(const OpSchema& schema, std::span<const ir::Attribute> attributes);

// The attribute that determines the element type of outputs that no input determines. "to" of Cast, "dtype"
// of RandomNormal and "output_dtype" of QuantizeLinear are integers that denote an ElementType. "value" of
// ConstantOfShape and Constant is a tensor of that element type. Empty for other operators. (A Constant may
// have value_float or a similar attribute instead; the element type of its value is used the same way.)
std::string_view type_attribute_of(const OpSchema& schema);

// The conflict as text: "input 1 (B) is int64, but T is float as in input 0 (A)".
std::string describe(const OpSchema& schema, const TypeConflict& conflict);

}  // namespace opbridge::onnx
