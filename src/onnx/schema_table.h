// The signatures of all ONNX operators, of every version, from the onnx package that the build found.
//
// The table is constant data without pointers: rows name their parts by index, and the functions here resolve
// them. Lookups allocate nothing.
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

// Part of one of the table's arrays.
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

// Which types a value may have: tensors by element type; sequences, optionals and maps only as such, whatever
// is in them.
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
  // The element type, where the set holds tensors of one element type and nothing else.
  std::optional<ElementType> only() const;
  // "{float16, float, double}", in ONNX's names; "float" where there is only that.
  std::string str() const;

  friend constexpr bool operator==(TypeSet, TypeSet) = default;
};

// A type variable of one operator, "T", or a type that the signature spells out, "tensor(int64)".
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
  bool homogeneous;        // of a variadic parameter: all its values have the same type
  std::uint8_t min_arity;  // of a variadic parameter: how many values at least

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
  // The default's values, one for a kind that is no list; empty where the attribute has no default or is of
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
  bool deprecated;  // from since_version on, the operator must not be used any more
  std::uint16_t since_version;
  std::int32_t min_inputs;  // trailing optional inputs may be left off; those in between are given as empty
  std::int32_t max_inputs;  // unbounded where the last is variadic
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

  // The parameter that takes the index-th value: a variadic one takes all from its place on. Null beyond the
  // last.
  const FormalParameter* input(std::size_t index) const;
  const FormalParameter* output(std::size_t index) const;
  const AttributeSchema* attribute(std::string_view name) const;  // null where there is none of this name

  bool accepts_inputs(std::size_t count) const;
  bool accepts_outputs(std::size_t count) const;
};

// The domains are "" (which "ai.onnx" names as well), "ai.onnx.ml", "ai.onnx.preview" and
// "ai.onnx.preview.training".

// The signature in force at `opset`: the one with the greatest since_version not above it. Null for an
// operator that does not exist, or not yet. A deprecated operator is found: see OpSchema::deprecated. An
// opset beyond newest_opset() is answered as the newest.
const OpSchema* find_schema(std::string_view domain, std::string_view name, int opset);

// The first opset in which the operator exists; 0 where it exists in none.
int first_version(std::string_view domain, std::string_view name);

// The newest opset of the domain; 0 for a domain that is not ONNX's.
int newest_opset(std::string_view domain = "");

// The first ONNX IR version (ModelProto.ir_version) whose models may import this opset; that of the newest
// opset for one beyond it; 3, the first of all, for a domain that is not ONNX's. A model needs the greatest
// of its domains'.
int ir_version_for(int opset, std::string_view domain = "");

// All signatures, sorted by domain, name and version.
std::span<const OpSchema> all_schemas();

// The version of the onnx package that the table was made from.
std::string_view onnx_version();

// Names of operators of the domain, in force at `opset` and not deprecated, that `name` may be a misspelling
// of, the nearest first. At most three, often none.
std::vector<std::string_view> suggest_names(std::string_view name, std::string_view domain = "",
                                            int opset = std::numeric_limits<int>::max());

// The signature in one line: "Clip-13(T input, optional T min, optional T max) -> T output; T in {float16,
// float}".
std::string describe(const OpSchema& schema);

}  // namespace opbridge::onnx
