#include "builder/operator_lowering.h"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <exception>

namespace opbridge::builder {
namespace {

// One run of a lowering. Assigns handles to the values and symbolic sizes that it sees, and makes its nodes.
class LoweringRun {
 public:
  explicit LoweringRun(const SymbolicCall& call)
      : call_(call),
        g_(call.g),
        sizes_{this,
               guarded<&LoweringRun::arithmetic>,
               guarded<&LoweringRun::compare>,
               guarded<&LoweringRun::require>,
               nullptr,
               nullptr},
        host_{this,
              call.g.opset(),
              &sizes_,
              guarded<&LoweringRun::type>,
              guarded<&LoweringRun::node>,
              guarded<&LoweringRun::form>,
              guarded<&LoweringRun::constant>,
              guarded<&LoweringRun::scalar>,
              guarded<&LoweringRun::take_results>} {}
  LoweringRun(const LoweringRun&) = delete;

  std::optional<std::vector<Value>> run(LowerFunction lower, int32_t index, const OperatorSchema& schema) {
    std::vector<opbridge_argument> arguments;
    for (size_t i = 0; i < schema.arguments.size(); ++i)
      arguments.push_back(argument(i, schema.arguments[i].type));
    std::array<char, 4096> message{};
    const int status = lower(index, arguments.data(), static_cast<int32_t>(arguments.size()), &host_,
                             message.data(), message.size());
    if (error_) std::rethrow_exception(error_);
    if (status == OPBRIDGE_OWN_NODE) return std::nullopt;
    if (status != OPBRIDGE_LOWERED) throw Error(ErrorCode::unsupported, message.data());
    return std::move(results_);
  }

 private:
  // Wraps a function of the host: an exception ends the lowering and is rethrown after it.
  template <auto member, class... Args>
  static int guarded(void* user, Args... args) {
    LoweringRun& self = *static_cast<LoweringRun*>(user);
    try {
      (self.*member)(args...);
      return 0;
    } catch (...) {
      if (!self.error_) self.error_ = std::current_exception();
      return 1;
    }
  }

  opbridge_value handle(Value value) {
    if (!value) return 0;
    values_.push_back(value);
    return static_cast<opbridge_value>(values_.size());
  }
  Value value(opbridge_value handle) const {
    return handle == 0 ? Value() : values_.at(static_cast<size_t>(handle - 1));
  }
  std::vector<Value> values(const opbridge_value* handles, int32_t count) const {
    std::vector<Value> result;
    for (int32_t i = 0; i < count; ++i) result.push_back(value(handles[i]));
    return result;
  }

  opbridge_dim encoded(const Dim& dim) {
    if (dim.is_static()) return {dim.value(), 0};
    dims_.push_back(dim);
    return {static_cast<int64_t>(dims_.size()) - 1, 1};
  }
  Dim decoded(const opbridge_dim& dim) const {
    if (dim.symbolic == 0) return Dim(dim.value);
    if (dim.symbolic == 1) return dims_.at(static_cast<size_t>(dim.value));
    g_.refuse("its lowering computes with Dim::from_data(), which only a shape rule may use");
  }
  std::vector<Dim> decoded(const opbridge_dim* dims, int32_t count) const {
    std::vector<Dim> result;
    for (int32_t i = 0; i < count; ++i) result.push_back(decoded(dims[i]));
    return result;
  }
  int64_t number(const Dim& dim) const {
    if (!dim.is_static()) {
      g_.refuse(fmt::format(
          "the size {} is known only when the model runs, but its lowering needs a constant there",
          dim.str()));
    }
    return dim.value();
  }
  std::vector<int64_t> numbers(std::span<const Dim> dims) const {
    std::vector<int64_t> result;
    for (const Dim& dim : dims) result.push_back(number(dim));
    return result;
  }

  // The data that the argument points to stays valid until the run ends.
  opbridge_argument argument(size_t i, const SchemaType& type) {
    using Kind = SchemaType::Kind;
    const ir::AttributeValue& given = *call_.arguments[i];
    if (std::holds_alternative<std::monostate>(given)) return {};  // OPBRIDGE_NONE
    switch (type.kind) {
      case Kind::tensor: {
        using symbolic_detail::decode_value, symbolic_detail::decode_values;
        const auto values = type.list ? decode_values(call_, i) : std::vector{decode_value(call_, i)};
        std::vector<opbridge_value> handles;
        for (const Value element : values) handles.push_back(handle(element));
        return kept(kept_values_, std::move(handles), &opbridge_argument::values,
                    type.list ? OPBRIDGE_TENSORS : OPBRIDGE_TENSOR);
      }
      case Kind::integer:
      case Kind::sym_int:
      case Kind::boolean: {
        std::vector<opbridge_dim> dims;
        for (const Dim& dim : integers(i, type)) dims.push_back(encoded(dim));
        return kept(kept_dims_, std::move(dims), &opbridge_argument::ints,
                    type.list ? OPBRIDGE_INTS : OPBRIDGE_INT);
      }
      case Kind::floating: {
        using symbolic_detail::decode_double, symbolic_detail::decode_doubles;
        auto floats = type.list ? *decode_doubles(call_, i) : std::vector{*decode_double(call_, i)};
        return kept(kept_floats_, std::move(floats), &opbridge_argument::floats,
                    type.list ? OPBRIDGE_FLOATS : OPBRIDGE_FLOAT);
      }
      case Kind::string: {
        std::vector<const char*> strings;
        if (const auto* text = std::get_if<std::string>(&given)) strings.push_back(c_string(*text));
        if (const auto* list = std::get_if<std::vector<std::string>>(&given)) {
          for (const std::string& text : *list) strings.push_back(c_string(text));
        }
        return kept(kept_strings_, std::move(strings), &opbridge_argument::strings,
                    type.list ? OPBRIDGE_STRINGS : OPBRIDGE_STRING);
      }
      default:
        g_.refuse(fmt::format("an operator of a library has an argument of type {}", type.str()));
    }
  }

  std::vector<Dim> integers(size_t i, const SchemaType& type) const {
    using symbolic_detail::decode_bool, symbolic_detail::decode_bools;
    if (type.kind != SchemaType::Kind::boolean) {
      if (!type.list) return {*symbolic_detail::decode_dim(call_, i)};
      return *symbolic_detail::decode_dims(call_, i);
    }
    const std::vector<bool> flags = type.list ? *decode_bools(call_, i) : std::vector{*decode_bool(call_, i)};
    return {flags.begin(), flags.end()};
  }

  const char* c_string(const std::string& text) const {
    if (text.find('\0') != std::string::npos) g_.refuse("a string argument contains a zero character");
    return text.c_str();
  }

  template <class T>
  static opbridge_argument kept(std::deque<std::vector<T>>& store, std::vector<T> elements,
                                const T* opbridge_argument::*pointer, opbridge_argument_kind kind) {
    opbridge_argument result{};
    result.kind = kind;
    result.count = static_cast<int32_t>(elements.size());
    result.*pointer = store.emplace_back(std::move(elements)).data();
    return result;
  }

  void arithmetic(int32_t what, const opbridge_dim* a, const opbridge_dim* b, opbridge_dim* result) {
    const Dim x = decoded(*a), y = decoded(*b);
    switch (what) {
      case OPBRIDGE_ADD:
        *result = encoded(x + y);
        return;
      case OPBRIDGE_SUB:
        *result = encoded(x - y);
        return;
      case OPBRIDGE_MUL:
        *result = encoded(x * y);
        return;
      case OPBRIDGE_FLOOR_DIV:
        *result = encoded(floor_div(x, y));
        return;
      case OPBRIDGE_MOD:
        *result = encoded(mod(x, y));
        return;
      case OPBRIDGE_MIN:
        *result = encoded(min(x, y));
        return;
      default:
        *result = encoded(max(x, y));
    }
  }

  // Compares sizes if the symbols cancel out; any other answer would restrict the model to some sizes.
  bool holds(int32_t what, const opbridge_dim& a, const opbridge_dim& b) const {
    const Dim x = decoded(a), y = decoded(b), difference = x - y;
    if (!difference.is_static()) {
      g_.refuse(fmt::format(
          "its lowering compares the sizes {} and {}, which are known only when the model runs; leave such "
          "calls to the operator's own node: if (!dim.is_number()) g.use_own_node()",
          x.str(), y.str()));
    }
    const int64_t by = difference.value();
    return what == OPBRIDGE_EQ   ? by == 0
           : what == OPBRIDGE_NE ? by != 0
           : what == OPBRIDGE_LT ? by < 0
                                 : by <= 0;
  }

  void compare(int32_t what, const opbridge_dim* a, const opbridge_dim* b, int32_t* result) {
    *result = holds(what, *a, *b);
  }

  void require(int32_t what, const opbridge_dim* a, const opbridge_dim* b, const char* message) {
    if (!holds(what, *a, *b)) g_.refuse(message);
  }

  void type(opbridge_value of, opbridge_tensor_type* result) {
    const ir::TensorType& known = value(of).type();
    std::vector<opbridge_dim> dims;
    if (known.ranked()) {
      for (const Dim& dim : *known.dims) dims.push_back(encoded(dim));
    }
    *result = {static_cast<int32_t>(known.element_type),
               known.ranked() ? static_cast<int32_t>(dims.size()) : -1,
               kept_dims_.emplace_back(std::move(dims)).data()};
  }

  static ir::AttributeValue attribute_value(const opbridge_argument& given) {
    std::vector<int64_t> ints;
    if (given.kind == OPBRIDGE_INT) return given.ints[0].value;
    if (given.kind == OPBRIDGE_FLOAT) return given.floats[0];
    if (given.kind == OPBRIDGE_STRING) return std::string(given.strings[0]);
    if (given.kind == OPBRIDGE_FLOATS) return std::vector<double>(given.floats, given.floats + given.count);
    if (given.kind == OPBRIDGE_STRINGS)
      return std::vector<std::string>(given.strings, given.strings + given.count);
    for (int32_t i = 0; i < given.count; ++i) ints.push_back(given.ints[i].value);
    return ints;
  }

  void node(const char* name, const opbridge_value* inputs, int32_t input_count,
            const opbridge_attribute* attributes, int32_t attribute_count, opbridge_value* outputs,
            int32_t output_count) {
    std::vector<Operand> operands{values(inputs, input_count)};
    for (int32_t i = 0; i < attribute_count; ++i)
      operands.push_back(Attr{attributes[i].name, attribute_value(attributes[i].value)});
    give(g_.op_list(name, static_cast<size_t>(output_count), std::move(operands)), outputs);
  }

  void give(std::span<const Value> made, opbridge_value* outputs) {
    for (size_t i = 0; i < made.size(); ++i) outputs[i] = handle(made[i]);
  }

  void form(int32_t what, const char* name, const opbridge_value* inputs, int32_t input_count,
            const opbridge_dim* numbers, int32_t number_count, opbridge_value* outputs, int32_t) {
    const std::vector<Value> in = values(inputs, input_count);
    const std::vector<Dim> dims = decoded(numbers, number_count);
    if (what == OPBRIDGE_SPLIT) {
      return give(g_.split(in.at(0), number(dims.at(0)), std::span(dims).subspan(1)), outputs);
    }
    outputs[0] = handle(formed(what, name, in, dims));
  }

  Value formed(int32_t what, const char* name, const std::vector<Value>& in, std::span<const Dim> dims) {
    switch (what) {
      case OPBRIDGE_SIZE:
        return g_.size(dims[0]);
      case OPBRIDGE_SIZES:
        return g_.sizes(dims);
      case OPBRIDGE_SHAPE_OF:
        return g_.shape_of(in.at(0));
      case OPBRIDGE_SET_DIMS:
        return set_dims(in.at(0), dims);
      case OPBRIDGE_CAST:
        return g_.cast(in.at(0), static_cast<ElementType>(number(dims[0])));
      case OPBRIDGE_RESHAPE:
        return g_.reshape(in.at(0), dims);
      case OPBRIDGE_EXPAND:
        return g_.expand(in.at(0), dims);
      case OPBRIDGE_TRANSPOSE:
        return g_.transpose(in.at(0), numbers(dims));
      case OPBRIDGE_SQUEEZE:
        return g_.squeeze(in.at(0), numbers(dims));
      case OPBRIDGE_UNSQUEEZE:
        return g_.unsqueeze(in.at(0), numbers(dims));
      case OPBRIDGE_CONCAT:
        return g_.concat(in, number(dims[0]));
      case OPBRIDGE_SLICE:
        return g_.slice(in.at(0), number(dims[0]), g_.sizes({dims[1]}), g_.sizes({dims[2]}), number(dims[3]));
      case OPBRIDGE_REDUCE:
        return g_.reduce(name, in.at(0), numbers(dims.subspan(1)), number(dims[0]) != 0);
      default:
        g_.refuse("its library was built with another version of opbridge: rebuild it");
    }
  }

  Value set_dims(Value value, std::span<const Dim> dims) const {
    if (!value.get()->producer || (value.ranked() && value.dims().size() != dims.size()))
      g_.refuse(fmt::format("its lowering declares wrong dims for {}", value.get()->name));
    value.get()->type = ir::TensorType{value.element_type(), std::vector(dims.begin(), dims.end())};
    return value;
  }

  void constant(int32_t element_type, const int64_t* dims, int32_t rank, const void* elements,
                opbridge_value* result) {
    ir::Weight weight;
    weight.element_type = static_cast<ElementType>(element_type);
    weight.dims.assign(dims, dims + rank);
    const size_t size = storage_bytes(weight.element_type, static_cast<uint64_t>(weight.element_count()));
    const auto* const begin = static_cast<const std::byte*>(elements);
    auto owner = std::make_shared<const std::vector<std::byte>>(begin, begin + size);
    weight.bytes = std::span(*owner);
    weight.owner = std::move(owner);
    *result = handle(g_.constant(std::move(weight)));
  }

  void scalar(const opbridge_argument* given, int32_t element_type, opbridge_value* result) {
    const Scalar number =
        given->kind == OPBRIDGE_FLOAT ? Scalar(given->floats[0]) : Scalar(decoded(given->ints[0]));
    const auto type = static_cast<ElementType>(element_type);
    *result = handle(type == ElementType::undefined ? g_.number(number) : g_.scalar(number, type));
  }

  void take_results(const opbridge_value* handles, int32_t count) { results_ = values(handles, count); }

  const SymbolicCall& call_;
  GraphBuilder& g_;
  opbridge_shape_host sizes_;
  opbridge_onnx_host host_;
  std::vector<Value> values_;
  std::vector<Dim> dims_;
  std::deque<std::vector<opbridge_value>> kept_values_;
  std::deque<std::vector<opbridge_dim>> kept_dims_;
  std::deque<std::vector<double>> kept_floats_;
  std::deque<std::vector<const char*>> kept_strings_;
  std::vector<Value> results_;
  std::exception_ptr error_;
};

}  // namespace

std::optional<std::vector<Value>> run_lowering(LowerFunction lower, int32_t index,
                                               const OperatorSchema& schema, const SymbolicCall& call) {
  return LoweringRun(call).run(lower, index, schema);
}

}  // namespace opbridge::builder
