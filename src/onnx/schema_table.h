// The signatures of all versions of all ONNX operators, from the onnx package that the build found.
//
// The table is constant data without pointers: rows refer to their parts by index, and the functions here
// resolve the indices. Lookups allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opbridge/element_type.h"

namespace opbridge::onnx {

// A slice of one of the table's arrays.
struct Slice {
  std::uint16_t begin;
  std::uint16_t size;
};

// A string of the table.
struct Text {
  std::uint16_t begin;
  std::uint16_t size;
  std::string_view view() const;
};

// The types that a value may have: tensors by element type; sequences, optionals and maps regardless of their
// contents.
struct TypeSet {
  std::uint64_t bits = 0;  // bit n: tensors of the ElementType with number n; the four highest as below

  static constexpr std::uint64_t sparse_tensor = 1ULL << 60;
  static constexpr std::uint64_t sequence = 1ULL << 61;
  static constexpr std::uint64_t optional = 1ULL << 62;
  static constexpr std::uint64_t map = 1ULL << 63;

  static constexpr TypeSet of(ElementType type) {
    const auto number = static_cast<unsigned>(type);
    return {number < 60 ? 1ULL << number : 0};
  }
  constexpr bool contains(ElementType type) const {
    const auto number = static_cast<unsigned>(type);
    return number < 60 && (bits >> number & 1) != 0;
  }
  constexpr bool has(std::uint64_t kind) const { return (bits & kind) != 0; }
  // The element type, if the set holds tensors of exactly one element type.
  std::optional<ElementType> only() const;
  // "{float16, float, double}", in ONNX's names; "float" if it is the only one.
  std::string str() const;

  friend constexpr bool operator==(TypeSet, TypeSet) = default;
};

// A type variable of an operator ("T"), or a type that the signature names directly ("tensor(int64)").
struct TypeParameter {
  Text name_;
  TypeSet allowed;

  std::string_view name() const { return name_.view(); }
};

enum class ParameterOption : std::uint8_t { single, optional, variadic };

// An input or an output.
struct FormalParameter {
  Text name_;
  std::uint8_t type;  // index into OpSchema::types()
  ParameterOption option;
  bool homogeneous;        // variadic: all values have the same type
  std::uint8_t min_arity;  // variadic: the least number of values

  std::string_view name() const { return name_.view(); }
};

// The numbers are those of onnx.AttributeProto.AttributeType.
enum class AttributeKind : std::uint8_t {
  undefined = 0,
  float_ = 1,
  int_ = 2,
  string = 3,
  tensor = 4,
  graph = 5,
  floats = 6,
  ints = 7,
  strings = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type_proto = 13,
  type_protos = 14,
};

// "int", "floats", "graph".
std::string_view name(AttributeKind kind);

struct AttributeSchema {
  Text name_;
  AttributeKind kind;
  bool required;
  bool has_default;
  Slice default_;

  std::string_view name() const { return name_.view(); }
  // The values of the default, one if the kind is not a list; empty if the attribute has no default or is of
  // another kind.
  std::span<const std::int64_t> default_ints() const;
  std::span<const float> default_floats() const;
  std::span<const Text> default_strings() const;
};

// One version of one operator.
struct OpSchema {
  static constexpr std::int32_t unbounded = std::numeric_limits<std::int32_t>::max();
  static constexpr std::size_t most_types = 16;  // no operator has more types()

  Text name_;
  std::uint8_t domain_;
  bool deprecated;  // the operator must not be used from since_version on
  std::uint16_t since_version;
  std::int32_t min_inputs;  // trailing optional inputs may be omitted; others are passed as empty names
  std::int32_t max_inputs;  // unbounded if the last is variadic
  std::int32_t min_outputs;
  std::int32_t max_outputs;
  Slice inputs_;
  Slice outputs_;
  Slice types_;
  Slice attributes_;

  std::string_view name() const { return name_.view(); }
  std::string_view domain() const;
  std::span<const FormalParameter> inputs() const;
  std::span<const FormalParameter> outputs() const;
  std::span<const TypeParameter> types() const;         // type variables first
  std::span<const AttributeSchema> attributes() const;  // sorted by name

  // The parameter of the value at `index`; a variadic parameter covers all indices from its own on. Null
  // beyond the last parameter.
  const FormalParameter* input(std::size_t index) const;
  const FormalParameter* output(std::size_t index) const;
  const AttributeSchema* attribute(std::string_view name) const;  // null if there is none

  bool accepts_inputs(std::size_t count) const;
  bool accepts_outputs(std::size_t count) const;
};

// The domains are "" (alias "ai.onnx"), "ai.onnx.ml", "ai.onnx.preview" and "ai.onnx.preview.training".

// The signature in force at `opset`: the one with the greatest since_version up to it. Null if the operator
// does not exist at that opset. Deprecated operators are found too: see OpSchema::deprecated. An opset beyond
// newest_opset() counts as the newest.
const OpSchema* find_schema(std::string_view domain, std::string_view name, int opset);

// The first opset that has the operator; 0 if none has.
int first_version(std::string_view domain, std::string_view name);

// The newest opset of the domain; 0 for a domain that is not ONNX's.
int newest_opset(std::string_view domain = "");

// The first ONNX IR version (ModelProto.ir_version) that allows importing this opset. Newer opsets count as
// the newest known. For a domain that is not ONNX's it is 3, the first of all. A model needs the maximum over
// its domains.
int ir_version_for(int opset, std::string_view domain = "");

// All signatures, sorted by domain, name and version.
std::span<const OpSchema> all_schemas();

// The version of the onnx package that the table was generated from.
std::string_view onnx_version();

// Operators of the domain, in force at `opset` and not deprecated, that `name` may be a misspelling of: at
// most three, the closest first.
std::vector<std::string_view> suggest_names(std::string_view name, std::string_view domain = "",
                                            int opset = std::numeric_limits<int>::max());

// The signature in one line: "Clip-13(T input, optional T min, optional T max) -> T output; T in {float16,
// float}".
std::string describe(const OpSchema& schema);

}  // namespace opbridge::onnx
