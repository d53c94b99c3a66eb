// The intermediate representation: one graph type for PyTorch's operators (`aten::conv2d`) and for ONNX's
// (`Conv`).
//
// A graph is in static single assignment form: each value is a graph input, an initializer, or the output of
// one node, and the nodes are ordered such that every value is produced before it is used. A subgraph (the
// body of an If or a Loop) may use the values of the enclosing graphs.
//
// A torch-level node keeps all its arguments, tensors and others alike, as named `attributes`, named and
// ordered as in the operator's schema; arguments left at their default may be missing. Its outputs are its
// results in order; a result that is a `Tensor[]` yields one output for each element, and a result that is
// None yields one output of undefined type. An ONNX node keeps tensors in `inputs` (null for an omitted
// optional input) and the rest in `attributes`.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "opbridge/dim.h"
#include "opbridge/element_type.h"
#include "opbridge/error.h"

namespace opbridge::ir {

struct Node;
class Graph;

struct TensorType {
  ElementType element_type = ElementType::undefined;
  std::optional<std::vector<Dim>> dims;  // missing where even the rank is unknown

  bool ranked() const { return dims.has_value(); }
  size_t rank() const { return dims.value().size(); }
  bool is_static() const;  // ranked, and every dim is an integer
  std::string str() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// A list of tensors (`Tensor[]`): one value, whose elements the same node produces.
struct ListType {
  std::vector<TensorType> elements;
  friend bool operator==(const ListType&, const ListType&) = default;
};

// A Python number whose value is not known before the model runs (SymInt, SymFloat, SymBool).
struct ScalarType {
  ElementType element_type = ElementType::int64;  // int64, float64 or boolean
  Dim value;                                      // for integers: the expression it equals
  friend bool operator==(const ScalarType&, const ScalarType&) = default;
};

using Type = std::variant<TensorType, ListType, ScalarType>;

// The bytes of a constant tensor: row-major, contiguous, little-endian. The bytes are borrowed; `owner` keeps
// them alive (a mapped file, a Python tensor, a buffer). Element types under a byte are packed as ONNX's
// raw_data is. A string is stored as its length in bytes (uint64) followed by its bytes.
struct Weight {
  ElementType element_type = ElementType::undefined;
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  // Throws Error(invalid_argument) if a dim is negative or the count exceeds 64 bits.
  int64_t element_count() const;
  // An owned copy of `values` with the given dims; T is a fixed-width arithmetic type.
  template <class T>
  static Weight of(std::span<const T> values, std::vector<int64_t> dims);
  static Weight of_strings(std::span<const std::string> values, std::vector<int64_t> dims);
  template <class T>
  std::span<const T> as() const;  // of aligned bytes; throws Error(internal) unless T matches element_type
  std::vector<std::string_view> strings() const;  // throws Error(internal) unless they are strings
};

// A constant tensor that stores only some elements; all others are zero (onnx.SparseTensorProto).
struct SparseTensor {
  Weight values;   // [n]
  Weight indices;  // int64, ascending: [n], row-major linear indices, or [n, rank], one index per axis
  std::vector<int64_t> dims;

  void check() const;  // throws Error(invalid_argument) if the members are inconsistent
};

struct Value {
  std::string name;
  Type type;
  Node* producer = nullptr;        // null for inputs and initializers
  const Weight* weight = nullptr;  // of an initializer

  const TensorType& tensor_type() const;  // throws Error(invalid_argument) unless it is a tensor
};

// Device, Layout, MemoryFormat, Generator: carried for completeness, without meaning in ONNX.
struct Opaque {
  std::string text;
  friend bool operator==(const Opaque&, const Opaque&) = default;
};

using GraphPtr = std::shared_ptr<Graph>;

using AttributeVariant =
    std::variant<std::monostate,  // None
                 bool, int64_t, double, std::complex<double>, std::string, Dim, ElementType, Opaque, Value*,
                 std::vector<bool>, std::vector<int64_t>, std::vector<double>, std::vector<std::string>,
                 std::vector<Dim>,
                 std::vector<Value*>,  // null elements where the list holds None
                 std::shared_ptr<const Weight>, std::vector<std::shared_ptr<const Weight>>,
                 std::shared_ptr<const SparseTensor>, std::vector<std::shared_ptr<const SparseTensor>>,
                 GraphPtr, std::vector<GraphPtr>, Type, std::vector<Type>>;

template <class T, class Variant>
inline constexpr bool is_alternative = false;
template <class T, class... Alternatives>
inline constexpr bool is_alternative<T, std::variant<Alternatives...>> = (std::same_as<T, Alternatives> ||
                                                                          ...);

// The variant, with its constructors and its destructor compiled once: a source file that passes attributes
// would take a third longer to compile if it instantiated them.
class AttributeValue : public AttributeVariant {
 public:
  AttributeValue();  // None
  AttributeValue(const AttributeValue& other);
  AttributeValue(AttributeValue&& other) noexcept;
  AttributeValue& operator=(const AttributeValue& other);
  AttributeValue& operator=(AttributeValue&& other) noexcept;
  ~AttributeValue();
  template <class T>
  requires is_alternative<T, AttributeVariant> AttributeValue(
      T value);  // NOLINT: converts as the variant does
};

struct Attribute {
  std::string name;
  AttributeValue value;
};

// Where in the user's program a node comes from.
struct Source {
  std::string scope;           // path of the module, "layer1.0.conv1"; empty at the root
  std::string line;            // "model.py:12 in forward: return self.conv(x)"; empty where unknown
  std::string op = {};         // of an ONNX node: the PyTorch operator that it was made for, "aten::conv2d"
  bool by_user = false;        // of an ONNX node: made by a symbolic function of the user
  std::string call = {};       // of an ONNX node: the name of the first result of the PyTorch operator
  std::string rewritten = {};  // of an ONNX node: the rewrites that made or changed it, "transposes, casts"
};

// The parts of an operator's name "domain::type". The domain of ONNX's own operators is empty.
struct OpName {
  explicit OpName(std::string_view op);  // `op` must outlive the parts, which point into it
  std::string_view domain;
  std::string_view type;
};

struct Node {
  std::string op;  // "aten::conv2d", "aten::add.Tensor"; ONNX: "Conv", "com.example::Foo"
  std::string name;
  std::vector<Value*> inputs;
  std::vector<Attribute> attributes;
  std::vector<Value*> outputs;
  Source source;

  const AttributeValue* find(std::string_view attribute) const;  // null where missing
  void set(std::string_view attribute, AttributeValue value);

  // The graphs among the attributes, those in lists included.
  std::vector<GraphPtr> bodies() const;

  // Calls `visit` for each use of a value, in order; `visit` may assign to the reference. Skips null entries
  // and the uses inside subgraphs.
  void for_each_use(const std::function<void(Value*&)>& visit);
};

class Graph {
 public:
  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name = "main";
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  std::vector<Value*> initializers;
  std::vector<Node*> nodes;  // in execution order

  Value* add_value(std::string name, Type type);
  Value* add_input(std::string name, Type type);
  // The graph stores `weight`; the bytes stay borrowed.
  Value* add_initializer(std::string name, Weight weight);
  // Makes a node without outputs, which the caller inserts into `nodes`.
  Node* make_node(std::string op);
  Node* add_node(std::string op);  // makes and appends
  Value* add_output_of(Node* node, std::string name, Type type);

 private:
  // Deques, because their elements keep their addresses while the graph grows.
  std::deque<Value> values_;
  std::deque<Node> nodes_storage_;
  std::deque<Weight> weights_;
};

// Readable text, one node a line.
std::string print(const Graph& graph);
// The text of one attribute value: `None`, `True`, `1.0`, `"mean"`, `[1, 2*s0]`, `%x`.
std::string str(const AttributeValue& value);
// `float32[2, s0]`, `(float32[2], float32[3])`, `int64 2*s0`.
std::string str(const Type& type);

// Checks the SSA invariants stated at the top of this file. Throws Error(internal), which names the node.
void verify(const Graph& graph);

// Calls `visit` for the nodes of the graph and of all its subgraphs, outer before inner.
void for_each_node(Graph& graph, const std::function<void(Graph&, Node&)>& visit);

template <class T>
Weight Weight::of(std::span<const T> values, std::vector<int64_t> dims) {
  auto copy =
      std::make_shared<std::vector<std::byte>>(std::as_bytes(values).begin(), std::as_bytes(values).end());
  std::span<const std::byte> bytes(*copy);
  return Weight{element_type_of<T>(), std::move(dims), bytes, std::move(copy)};
}

template <class T>
std::span<const T> Weight::as() const {
  if (element_type != element_type_of<T>()) {
    throw Error(ErrorCode::internal,
                "weight of " + std::string(opbridge::name(element_type)) + " read as another type");
  }
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace opbridge::ir
