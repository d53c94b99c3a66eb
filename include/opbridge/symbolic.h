// The interface of symbolic functions: `GraphBuilder`, the `g` of `g.op`, and the C++ types of their
// parameters.
//
//   schema type            parameter type              remarks
//   Tensor                 Value
//   Tensor?                std::optional<Value>
//   Tensor[]               std::vector<Value>
//   Tensor?[]              std::vector<std::optional<Value>>
//   Scalar                 Scalar                      Scalar? std::optional<Scalar>; or Value, see `number`
//   int, SymInt            int64_t or Dim              int64_t refuses a size that is symbolic
//   int[], SymInt[]        std::vector<int64_t> or std::vector<Dim>; optional lists in std::optional
//   float                  double, or Scalar           and std::optional, std::vector of double
//   bool, str              bool, std::string           and std::optional, std::vector of them
//   ScalarType             ElementType                 ScalarType? std::optional<ElementType>
//   Device, Layout, …      Ignored                     any schema type can be taken as Ignored
//
// The function returns a Value, std::vector<Value>, or a std::array of Values: one for each return of the
// schema. An empty Value stands for an output that ONNX cannot compute.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "opbridge/ir.h"
#include "opbridge/schema.h"

namespace opbridge {

namespace onnx {
struct OpSchema;
class TypeResolution;
}  // namespace onnx

// A handle to an ONNX value that is being built. Cheap to copy; empty where default-constructed.
class Value {
 public:
  Value() = default;
  Value(ir::Value* value) : value_(value) {}  // NOLINT: a handle
  explicit operator bool() const { return value_ != nullptr; }
  ir::Value* get() const { return value_; }

  const ir::TensorType& type() const { return value_->tensor_type(); }
  ElementType element_type() const { return type().element_type; }
  bool ranked() const { return type().ranked(); }
  int64_t rank() const;                  // throws Error(unsupported) where unknown
  const std::vector<Dim>& dims() const;  // throws Error(unsupported) where unknown
  // Negative axes count from the end; throws Error(invalid_argument) where there is no such axis.
  const Dim& dim(int64_t axis) const;
  const ir::Weight* weight() const { return value_->weight; }  // null unless a constant
  friend bool operator==(Value, Value) = default;

 private:
  ir::Value* value_ = nullptr;
};

// A Python number: a bool, int, float or complex constant, or a number known only when the model runs.
// Its special members, and those of Operand, are compiled once, in value.cc: they are costly to instantiate.
class Scalar {
 public:
  Scalar(bool v);     // NOLINT
  Scalar(int64_t v);  // NOLINT
  template <std::integral T>
  requires(!std::same_as<T, bool>) Scalar(T v) : Scalar(static_cast<int64_t>(v)) {}  // NOLINT
  Scalar(double v);                                                                  // NOLINT
  Scalar(std::complex<double> v);                                                    // NOLINT
  Scalar(Dim v);                                                                     // NOLINT
  Scalar(Value v);  // NOLINT: a 0-d tensor (SymFloat, SymBool)
  Scalar(const Scalar& other);
  Scalar(Scalar&& other) noexcept;
  Scalar& operator=(const Scalar& other);
  Scalar& operator=(Scalar&& other) noexcept;
  ~Scalar();

  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integral() const;  // bool, int or symbolic int
  bool is_floating() const;
  bool is_complex() const { return std::holds_alternative<std::complex<double>>(value_); }
  bool is_static() const;
  double to_double() const;  // throws Error(unsupported) where symbolic or complex
  int64_t to_int() const;    // towards 0; throws Error(unsupported) where symbolic, complex or beyond int64
  std::complex<double> to_complex() const;
  const std::variant<bool, int64_t, double, std::complex<double>, Dim, Value>& get() const { return value_; }

 private:
  std::variant<bool, int64_t, double, std::complex<double>, Dim, Value> value_;
};

// The parameter for an argument that the function does not read.
struct Ignored {};

// A named attribute of the node being made: `attr("axis", 1)`.
struct Attr {
  std::string name;
  ir::AttributeValue value;
};
template <std::integral T>
Attr attr(std::string name, T value) {
  return {std::move(name), static_cast<int64_t>(value)};
}
inline Attr attr(std::string name, double value) { return {std::move(name), value}; }
inline Attr attr(std::string name, const char* value) { return {std::move(name), std::string(value)}; }
inline Attr attr(std::string name, std::string value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, ElementType value) {
  return {std::move(name), static_cast<int64_t>(value)};
}
inline Attr attr(std::string name, std::vector<int64_t> value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, std::vector<double> value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, std::vector<std::string> value) {
  return {std::move(name), std::move(value)};
}
inline Attr attr(std::string name, ir::GraphPtr value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, std::vector<ir::GraphPtr> value) {
  return {std::move(name), std::move(value)};
}
inline Attr attr(std::string name, ir::Weight value) {
  return {std::move(name), std::make_shared<const ir::Weight>(std::move(value))};
}
inline Attr attr(std::string name, std::vector<ir::Weight> values) {
  std::vector<std::shared_ptr<const ir::Weight>> shared;
  for (ir::Weight& value : values) shared.push_back(std::make_shared<const ir::Weight>(std::move(value)));
  return {std::move(name), std::move(shared)};
}
inline Attr attr(std::string name, ir::SparseTensor value) {
  return {std::move(name), std::make_shared<const ir::SparseTensor>(std::move(value))};
}
inline Attr attr(std::string name, std::vector<ir::SparseTensor> values) {
  std::vector<std::shared_ptr<const ir::SparseTensor>> shared;
  for (ir::SparseTensor& value : values) {
    shared.push_back(std::make_shared<const ir::SparseTensor>(std::move(value)));
  }
  return {std::move(name), std::move(shared)};
}
inline Attr attr(std::string name, ir::Type value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, std::vector<ir::Type> value) {
  return {std::move(name), std::move(value)};
}

// An argument of `g.op` after the operator's name: an input, by position, or an attribute, by name. An empty
// Value or std::nullopt is an omitted optional input; a vector holds the values of a variadic input.
class Operand {
 public:
  Operand(Value value);                 // NOLINT
  Operand(std::optional<Value> value);  // NOLINT
  Operand(std::nullopt_t);              // NOLINT
  Operand(std::vector<Value> values);   // NOLINT
  Operand(Attr attribute);              // NOLINT
  Operand(const Operand& other);
  Operand(Operand&& other) noexcept;
  Operand& operator=(const Operand& other);
  Operand& operator=(Operand&& other) noexcept;
  ~Operand();
  const std::variant<Value, std::vector<Value>, Attr>& item() const { return item_; }

 private:
  std::variant<Value, std::vector<Value>, Attr> item_;
};

// An ONNX function (FunctionProto, serialized) that nodes named `domain::name` call.
struct OnnxFunction {
  std::string domain;
  std::string name;
  int version = 1;  // of the domain
  std::string bytes;
};

class SymbolicRegistry;

// Builds the ONNX graph. `op` checks name, inputs, attributes and element types against the ONNX schema that
// holds at `opset()`. A mismatch throws Error(invalid_node), which names the symbolic function, the line of
// the user's model and what ONNX expects. Operators with a namespace ("custom::deform_conv2d") are custom
// operators and are not checked.
class GraphBuilder {
 public:
  GraphBuilder(ir::Graph& graph, int opset);
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  int opset() const { return opset_; }

  // A node with one output: `g.op("Gemm", x, w, bias, attr("transB", 1))`.
  template <class... Operands>
  Value op(std::string_view name, Operands&&... operands) {
    return op_list(name, 1, {Operand(std::forward<Operands>(operands))...}).front();
  }
  // A node with `outputs` outputs: `auto [values, indices] = g.ops<2>("TopK", x, k)`.
  template <size_t outputs, class... Operands>
  std::array<Value, outputs> ops(std::string_view name, Operands&&... operands) {
    std::vector<Value> made = op_list(name, outputs, {Operand(std::forward<Operands>(operands))...});
    std::array<Value, outputs> result;
    std::copy(made.begin(), made.end(), result.begin());
    return result;
  }
  std::vector<Value> op_list(std::string_view name, size_t outputs, std::vector<Operand> operands);

  // Makes a body for If, Loop or Scan. `inputs` are the types of the body's inputs. `build` gets a builder of
  // the body and these inputs, makes the nodes and returns the body's outputs; it may use values of the
  // enclosing graphs.
  ir::GraphPtr subgraph(std::string name, std::vector<ir::TensorType> inputs,
                        const std::function<std::vector<Value>(GraphBuilder&, std::vector<Value>)>& build);

  // Adds an ONNX function to the model, once; nodes call it by `g.op("domain::name", …)`.
  void add_function(OnnxFunction function);

  // Makes a new symbol for a size that is known only when the model runs.
  Dim unknown_size(const std::string& stem, int64_t least = 0);

  // Constants.
  Value constant(ir::Weight weight);  // an initializer
  // 0-d: a constant, or a node if `value` is known only when the model runs. Throws Error(unsupported) if
  // `type` cannot represent the kind of number, such as a complex number in a real type.
  Value scalar(const Scalar& value, ElementType type);
  Value scalar_like(Value like, const Scalar& value) { return scalar(value, like.element_type()); }
  // A Python number as an operand: 0-d, bool, int64, float64 or complex128. Where ONNX's schema requires the
  // same element type of it and a tensor, it takes the tensor's type if that can hold its value.
  Value number(const Scalar& value);
  Value number(ir::Weight weight);
  bool is_number(Value value) const;
  Value ints(std::span<const int64_t> values);  // 1-d int64
  Value ints(std::initializer_list<int64_t> values) { return ints(std::span(values.begin(), values.size())); }

  // Sizes.
  Value size(const Dim& dim);              // 0-d int64: a constant, or computed when the model runs
  Value sizes(std::span<const Dim> dims);  // 1-d int64
  Value sizes(std::initializer_list<Dim> dims) { return sizes(std::span(dims.begin(), dims.size())); }
  Value shape_of(Value value);              // 1-d int64; a constant where all dims are known
  Value dim_of(Value value, int64_t axis);  // 0-d int64
  // The inverse of `size`: the size in `value`, an int64 tensor of one element. If it is known only when the
  // model runs, it is a new symbol.
  Dim as_dim(Value value);
  // From here on `size` computes `symbol` as the given 0-d int64 value. Further bindings of the same symbol
  // are ignored.
  void bind_symbol(const std::string& symbol, Value value);
  // Binds each symbol that is a dim of `value` or occurs in a linear dim such as `2*s + 1`; the nodes are
  // made when the symbol is first used.
  void bind_dims(Value value);

  // Operators whose form changed between opsets, and other common ones. They return their input where they
  // would not change it.
  Value cast(Value value, ElementType to);
  Value reshape(Value value, std::span<const Dim> dims);  // dims of the result, no -1
  Value reshape(Value value, std::initializer_list<Dim> dims) {
    return reshape(value, std::span(dims.begin(), dims.size()));
  }
  Value transpose(Value value, std::vector<int64_t> permutation);
  Value unsqueeze(Value value, std::vector<int64_t> axes);  // axes of the result; negative: from its end
  Value squeeze(Value value, std::vector<int64_t> axes);    // axes of size 1; negative: from the end
  Value expand(Value value, std::span<const Dim> dims);     // dims of the result, no -1
  Value concat(std::vector<Value> values, int64_t axis);
  // The elements [start, end) along an axis, clamped to its size; negative bounds count from the end. Bounds
  // that are values are int64: 0-d, or 1-d with one element.
  Value slice(Value value, int64_t axis, Value start, Value end, int64_t step = 1);
  Value slice(Value value, int64_t axis, int64_t start, int64_t end, int64_t step = 1);
  Value gather(Value value, Value indices, int64_t axis) {
    return op("Gather", value, indices, attr("axis", axis));
  }
  // The parts of an axis with these sizes, which must add up to the size of the axis.
  std::vector<Value> split(Value value, int64_t axis, std::span<const Dim> sizes);
  // "ReduceMean", "ReduceSum", …: axes as attribute or input, as the opset requires. No axes means all axes.
  Value reduce(std::string_view name, Value value, std::vector<int64_t> axes, bool keepdims);

  // Declares the type of a value that `op` made, where the type does not follow from the inputs: outputs of
  // Loop and of operators with a namespace, and sizes that depend on the data. Returns `value`.
  Value typed(Value value, ir::TensorType type) const {
    value.get()->type = std::move(type);
    return value;
  }
  Value typed(Value value, std::vector<Dim> dims) const {
    return typed(value, ir::TensorType{value.element_type(), std::move(dims)});
  }

  // The call that is being lowered, and the types of its outputs as PyTorch gave them during the capture.
  size_t result_count() const;
  const ir::TensorType& result(size_t index = 0) const;
  const ir::Node* call() const { return call_; }

  // Throws Error(unsupported): "aten::foo: REASON", with the line of the user's model.
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  struct DimSource {
    Value tensor;
    int64_t axis;
    int64_t factor;  // dim = factor * symbol + offset
    int64_t offset;
  };
  friend class BuilderStage;  // in src/builder/stage.h: the interface for opbridge's own stages
  GraphBuilder(GraphBuilder& parent, ir::Graph& body);
  std::string unique_name(const std::string& stem);

  std::vector<Value> append(std::string op, std::vector<Value> inputs, std::vector<ir::Attribute> attributes,
                            std::vector<ir::TensorType> outputs);
  // Throws if ONNX has no such operator at this opset.
  const onnx::OpSchema& schema_of(std::string_view name) const;
  // Throws if the node violates its schema. Converts attributes to the kind that the schema declares.
  void fit_to(const onnx::OpSchema& schema, std::span<const Value> inputs, size_t outputs,
              std::span<ir::Attribute> attributes) const;
  // Resolves the schema's type variables. Inputs that are Python numbers take the type of the other inputs if
  // that can hold their value.
  onnx::TypeResolution resolve_types(const onnx::OpSchema& schema, std::span<Value> inputs,
                                     std::span<const ir::Attribute> attributes);
  void check_attributes(std::string_view name, std::span<const ir::Attribute> attributes);
  [[noreturn]] void invalid_node(std::string_view name, const std::string& what) const;
  [[noreturn]] void breaks(const onnx::OpSchema& schema, const std::string& what) const;
  std::string where() const;
  // Compute sizes as 1-d tensors of one element, the form in which shapes are concatenated.
  Value size_1d(const Dim& dim);
  Value computed_1d(const Expr& expr);
  Value symbol_1d(const std::string& symbol);
  Value known_1d(const std::string& text) const;
  const DimSource* source_of(const std::string& size) const;  // null if no tensor has it
  // The elements of an int64 tensor that is constant or was made by `size` or `sizes`.
  std::optional<std::vector<Dim>> known_sizes(Value value) const;

  ir::Graph* graph_;
  GraphBuilder* parent_ = nullptr;
  std::unordered_map<std::string, Value> sizes_;  // text of an expression → its value in this graph
  // A symbol, or the text of an expression → where to read it.
  std::unordered_map<std::string, DimSource> dim_sources_;
  int opset_;
  bool bundled_ = false;
  const ir::Node* call_ = nullptr;
  std::string symbolic_;
  struct State;
  std::shared_ptr<State> state_;  // shared with the builders of subgraphs: names, constants, symbols
};

// Maps an axis in [-rank, rank) to [0, rank); throws Error(invalid_argument) for any other. A 0-d tensor
// counts as rank 1, as in PyTorch.
int64_t wrap_axis(int64_t axis, int64_t rank);
std::vector<int64_t> wrap_axes(std::span<const int64_t> axes, int64_t rank);

// PyTorch's promotion of two tensor or scalar operands (torch.result_type).
struct PromotionOperand {
  ElementType element_type;
  enum class Category : uint8_t { tensor, zero_dim_tensor, number } category;
};
ElementType promote(std::span<const PromotionOperand> operands,
                    ElementType default_float = ElementType::float32);

using BoundArguments = std::span<const ir::AttributeValue* const>;
// Maps each torch-level value, as in SymbolicCall::arguments, to the ONNX value that the lowering stage made.
class ValueMap {
 public:
  virtual ~ValueMap() = default;
  virtual Value operator[](const ir::Value* torch_value) const = 0;
};

// Lowers the graphs that operators of control flow have as arguments.
class BodyLowering {
 public:
  virtual ~BodyLowering() = default;
  // Makes the nodes of `body` with `g`, with `inputs` in place of the body's inputs; returns its outputs. A
  // body may be lowered more than once.
  virtual std::vector<Value> lower_body(const ir::Graph& body, GraphBuilder& g,
                                        std::span<const Value> inputs) = 0;
};

struct SymbolicCall {
  GraphBuilder& g;
  BoundArguments arguments;
  const ValueMap& values;
  const ir::Node& node;
  BodyLowering& bodies;
};
using SymbolicFunction = std::function<std::vector<Value>(const SymbolicCall&)>;

}  // namespace opbridge

#include "opbridge/symbolic_signature.h"
