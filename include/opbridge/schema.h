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
    scalar,        // Scalar, complex: a Python number of any kind
    integer,       // int
    sym_int,       // SymInt
    floating,      // float, SymFloat
    boolean,       // bool, SymBool
    string,        // str
    element_type,  // ScalarType
    opaque,        // Layout, Device, MemoryFormat, Generator, and every type not listed here: Dict(str, t)
  };
  Kind kind = Kind::tensor;
  std::string name = "Tensor";     // as written, without list, optional and alias: "SymInt", "Device"
  bool list = false;               // T[]
  bool optional = false;           // T? or T[]?
  bool optional_elements = false;  // T?[]
  int fixed_size = 0;              // 2 for int[2], where a single int stands for all; 0 for any size
  std::string alias;               // of Tensor(a!): "a"; empty for none; of Tensor(a|b): "a|b"
  std::string alias_after;         // of Tensor(a -> *): "*"
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
  bool more_arguments = false;  // ends in `...`, as some of TorchScript's own operators do
  bool more_returns = false;    // returns `...`

  std::string key() const { return overload.empty() ? name : name + "." + overload; }  // "aten::add.Tensor"
  // The line again, with defaults in one spelling: `1e-05`, `[1, 1]`.
  std::string str() const;
};

// Defaults become values of the declared type: `float eps=1` a double, `int[2] stride=1` a list of two. The
// default of an unknown type becomes its text, an ir::Opaque. Throws Error(invalid_argument), which shows the
// line and the position in it.
OperatorSchema parse_schema(std::string_view line);

// The arguments of a torch-level node in schema order, defaults filled in. The pointers are valid as long as
// `schema` and `node`. Throws Error(invalid_argument) for an unknown, a duplicate or a missing argument, and
// for a list or results whose count is not the declared one.
std::vector<const ir::AttributeValue*> bind(const OperatorSchema& schema, const ir::Node& node);

}  // namespace opbridge
