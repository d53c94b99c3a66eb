// PyTorch's operator schema language: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) ->
// Tensor`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge {

struct SchemaType {
  enum class Kind : uint8_t {
    tensor,
    scalar,        // Scalar: a Python number of any kind
    integer,       // int
    sym_int,       // SymInt
    floating,      // float
    boolean,       // bool
    string,        // str
    element_type,  // ScalarType
    opaque,        // Layout, Device, MemoryFormat, Generator, Stream, Dimname
  };
  Kind kind = Kind::tensor;
  bool list = false;               // T[]
  bool optional = false;           // T? or T[]?
  bool optional_elements = false;  // T?[]
  int fixed_size = 0;              // of int[2]: a single int stands for all; 0 for any
  std::string alias;               // of Tensor(a!): "a"; empty for none
  bool written = false;            // of Tensor(a!)

  std::string str() const;
};

struct SchemaArgument {
  std::string name;
  SchemaType type;
  std::optional<ir::AttributeValue> default_value;
  bool keyword_only = false;
};

struct SchemaReturn {
  std::string name;  // often empty
  SchemaType type;
};

struct OperatorSchema {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"; empty for the default overload
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaReturn> returns;

  std::string key() const { return overload.empty() ? name : name + "." + overload; }  // "aten::add.Tensor"
  std::string str() const;                                                             // the line again
};

// Throws Error(invalid_argument) that shows the line and the place in it.
OperatorSchema parse_schema(std::string_view line);

// The arguments of a torch-level node in schema order, defaults filled in. The pointers live as long as both
// arguments. Throws Error(invalid_argument) for an unknown, a doubled or a missing argument.
std::vector<const ir::AttributeValue*> bind(const OperatorSchema& schema, const ir::Node& node);

}  // namespace opbridge
