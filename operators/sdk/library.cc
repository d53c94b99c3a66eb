// The operators that a library registers, and the parts of a call that both adapters share: shapes, the
// choice of a kernel, lowering to ONNX, and the table that the core reads.
#include "library.h"

#include <cstring>

namespace opbridge::op::detail {
namespace {

struct Library {
  std::deque<LibraryOperator> operators;
  std::deque<std::string> texts;  // owns the text of schemas made at run time
  std::string error;
};

Library& library() {
  static Library instance;
  return instance;
}

void add_error(const LibraryOperator& op, const std::string& what) {
  std::string& error = library().error;
  error += (error.empty() ? "" : "; ") + op.name + ": " + what;
}

void add(LibraryOperator op) {
  Library& lib = library();
  op.name = std::string(op.schema.domain) + "::" + std::string(op.schema.name);
  lib.operators.push_back(std::move(op));
  try {
    register_with_host(lib.operators.size() - 1);
  } catch (const std::exception& e) {
    add_error(lib.operators.back(), e.what());
  }
}

std::string type_text(const SchemaType& type) {
  static constexpr std::string_view names[] = {"Tensor", "int", "SymInt", "float", "bool", "str"};
  return std::string(names[static_cast<std::size_t>(type.kind)]) + (type.list ? "[]" : "") +
         (type.optional ? "?" : "");
}

// "custom::f_backward(Tensor grad_output0, Tensor a, int n, bool[] wanted) -> (Tensor grad_a)"
std::string backward_line(const Record& record) {
  const Schema& schema = *record.schema;
  std::string line = std::string(schema.domain) + "::" + std::string(schema.name) + "_backward";
  line += "(";
  for (std::size_t i = 0; i < schema.return_count; ++i)
    line += "Tensor grad_output" + std::to_string(i) + ", ";
  for (const SchemaArgument& a : schema) line += type_text(a.type) + " " + std::string(a.name) + ", ";
  line += "bool[] wanted) -> (";
  for (const std::size_t i : record.differentiable) {
    line += (line.back() == '(' ? "Tensor grad_" : ", Tensor grad_") + std::string(schema.arguments[i].name);
  }
  return line + ")";
}

std::string join(std::span<const ElementType> types) {
  std::string text;
  for (const ElementType type : types) {
    text += text.empty() ? "" : ", ";
    text += type == ElementType::undefined ? "none" : opbridge::name(type);
  }
  return "(" + text + ")";
}

Error several_types(const SchemaArgument& argument) {
  return Error(ErrorCode::invalid_argument,
               "the tensors of " + std::string(argument.name) + " have several element types");
}

}  // namespace

void add_operator(Record record) {
  LibraryOperator op;
  op.schema = *record.schema;
  op.version = record.version;
  op.shape = record.shape;
  op.lowerings = std::move(record.lowerings);
  op.kernels = with_half_types(record.kernels);
  add(std::move(op));
  Library& lib = library();
  if (!record.error.empty()) add_error(lib.operators.back(), record.error);
  if (record.backward.empty()) return;

  LibraryOperator gradient;
  try {
    gradient.schema = SchemaReader(lib.texts.emplace_back(backward_line(record))).read();
  } catch (const char* why) {
    return add_error(lib.operators.back(), "its gradient cannot be an operator: " + std::string(why));
  }
  gradient.version = record.version;
  gradient.backward_of = static_cast<int>(lib.operators.size()) - 1;
  gradient.shape = record.backward_shape;
  gradient.kernels = with_half_types(record.backward);
  add(std::move(gradient));
}

const std::deque<LibraryOperator>& operators() { return library().operators; }

Error caught_error(const LibraryOperator& op) {
  const auto named = [&](const std::string& what) {
    return Error(ErrorCode::invalid_argument, op.name + ": " + what);
  };
  try {
    throw;
  } catch (const std::exception& error) {
    return named(error.what());
  } catch (const char* text) {
    return named(text);
  } catch (const std::string& text) {
    return named(text);
  } catch (...) {
    return named("an exception that is not a std::exception");
  }
}

TensorRef Host::allocate_data_sized(int output, ElementType type, std::span<const std::int64_t> dims) {
  if (expected_ != nullptr) expected_->allocate(output, dims);
  return allocate_output(output, type, dims);
}

DataSizedOutputs::DataSizedOutputs(const LibraryKernel& kernel, std::span<const std::vector<Shape>> shapes) {
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (kernel.data_sized[i]) outputs_.push_back({static_cast<int>(i), &shapes[i].front()});
  }
}

void DataSizedOutputs::allocate(int output, std::span<const std::int64_t> dims) {
  const auto found = std::ranges::find(outputs_, output, &Expected::output);
  const auto allows = [](const Dim& rule, std::int64_t dim) {
    return dim >= 0 && (rule.is_from_data() || rule.number() == dim);
  };
  if (found->made) {
    throw Error(ErrorCode::invalid_argument,
                "the kernel allocates its output " + std::to_string(output) + " twice");
  }
  if (!std::ranges::equal(*found->rule, dims, allows)) {
    throw Error(ErrorCode::invalid_argument, "the kernel allocates its output " + std::to_string(output) +
                                                 " in the shape " +
                                                 to_string(Shape(dims.begin(), dims.end())) +
                                                 "; its shape rule says " + to_string(*found->rule));
  }
  found->made = true;
}

void DataSizedOutputs::require_all() const {
  for (const Expected& each : outputs_) {
    if (!each.made) {
      throw Error(ErrorCode::invalid_argument,
                  "the kernel has not allocated its output " + std::to_string(each.output));
    }
  }
}

namespace {

// A gradient takes the arguments of its operator, to which the operator's shape rule applies, and the
// gradients of its results. Sizes that depend on data are left to the kernel.
void check_gradient(const LibraryOperator& gradient, std::span<const Value> arguments) {
  const LibraryOperator& op = operators()[static_cast<std::size_t>(gradient.backward_of)];
  const std::size_t returns = op.schema.return_count;
  const auto outputs = infer_shapes(op, arguments.subspan(returns, op.schema.argument_count));
  for (std::size_t i = 0; i < returns; ++i) {
    const Shape &given = std::get<Shape>(arguments[i]), &rule = outputs[i].front();
    const auto message = [&] {
      return std::string(gradient.schema.arguments[i].name) + " must have the shape of the result of " +
             op.name + ", " + to_string(rule) + ", not " + to_string(given);
    };
    require(given.size() == rule.size(), message);
    for (std::size_t d = 0; d < rule.size(); ++d) {
      if (!rule[d].is_from_data()) require(given[d] == rule[d], message);
    }
  }
}

}  // namespace

std::vector<std::vector<Shape>> infer_shapes(const LibraryOperator& op, std::span<const Value> arguments) {
  if (op.backward_of >= 0) check_gradient(op, arguments);
  std::vector<std::vector<Shape>> shapes = op.shape(arguments);
  for (const auto& output : shapes) {
    for (const Shape& shape : output) {
      std::int64_t size = 1;
      for (const Dim& dim : shape) {
        if (!dim.is_number()) continue;
        if (dim.number() < 0) {
          throw Error(ErrorCode::invalid_argument,
                      "the arguments give an output of negative size: " + to_string(shape));
        }
        if (__builtin_mul_overflow(size, std::max<std::int64_t>(dim.number(), 1), &size)) {
          throw Error(ErrorCode::invalid_argument, "an output has more elements than memory can hold");
        }
      }
    }
  }
  return shapes;
}

const LibraryKernel& select_kernel(const std::vector<LibraryKernel>& kernels,
                                   std::span<const ElementType> types, std::optional<Device> device) {
  std::string known;
  for (const LibraryKernel& kernel : kernels) {
    if (device && kernel.device != *device) continue;
    bool fits = true;
    for (std::size_t i = 0; i < types.size(); ++i) {
      fits = fits && (types[i] == ElementType::undefined || types[i] == kernel.inputs[i]);
    }
    if (fits) return kernel;
    known += (known.empty() ? "" : ", ") + join(kernel.inputs);
  }
  throw Error(ErrorCode::unsupported, "no kernel takes tensors of " + join(types) +
                                          "; the existing ones take " + (known.empty() ? "nothing" : known));
}

std::vector<ElementType> element_types(const LibraryOperator& op, std::span<const Value> arguments) {
  std::vector<ElementType> types;
  for (std::size_t i = 0; i < op.schema.argument_count; ++i) {
    if (!op.schema.arguments[i].type.is_tensor()) continue;
    ElementType type = ElementType::undefined;
    if (const auto* tensor = std::get_if<TensorRef>(&arguments[i])) {
      type = tensor->type;
    } else if (const auto* list = std::get_if<std::vector<TensorRef>>(&arguments[i])) {
      for (const TensorRef& tensor : *list) {
        if (type != ElementType::undefined && tensor.type != type) {
          throw several_types(op.schema.arguments[i]);
        }
        type = tensor.type;
      }
    }
    types.push_back(type);
  }
  return types;
}

std::vector<Value> with_shapes(std::span<const Value> arguments) {
  const auto shape_of = [](const TensorRef& tensor) { return Shape(tensor.dims.begin(), tensor.dims.end()); };
  std::vector<Value> result;
  result.reserve(arguments.size());
  for (const Value& argument : arguments) {
    if (const auto* tensor = std::get_if<TensorRef>(&argument)) {
      result.emplace_back(shape_of(*tensor));
    } else if (const auto* list = std::get_if<std::vector<TensorRef>>(&argument)) {
      std::vector<Shape> shapes;
      for (const TensorRef& each : *list) shapes.push_back(shape_of(each));
      result.emplace_back(std::move(shapes));
    } else {
      result.push_back(argument);
    }
  }
  return result;
}

std::vector<std::int64_t> numbers(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (const Dim& dim : shape) {
    if (dim.is_from_data()) {
      throw Error(ErrorCode::invalid_argument,
                  "the kernel takes an output of data-dependent size as TensorView<T>; it must take "
                  "it as Output<T>");
    }
    result.push_back(dim.number());
  }
  return result;
}

namespace {

// `onnx` is null for a shape rule.
struct Caller {
  const opbridge_shape_host* sizes;
  const opbridge_onnx_host* onnx;
};

Value value_of(const opbridge_argument& a, const SchemaArgument& argument, const Caller& host) {
  const auto count = static_cast<std::size_t>(a.count);
  const auto shape_of = [&](const opbridge_dim* dims, std::size_t rank) {
    Shape shape;
    for (std::size_t i = 0; i < rank; ++i) shape.emplace_back(dims[i], host.sizes);
    return shape;
  };
  const auto tensor_shape = [&](const opbridge_tensor_type& t) {
    return shape_of(t.dims, static_cast<std::size_t>(t.rank));
  };
  switch (a.kind) {
    case OPBRIDGE_TENSOR:
      if (host.onnx != nullptr) return op::Value(a.values[0], host.onnx);
      return tensor_shape(a.tensors[0]);
    case OPBRIDGE_TENSORS: {
      if (host.onnx != nullptr) {
        std::vector<op::Value> values;
        for (std::size_t i = 0; i < count; ++i) values.emplace_back(a.values[i], host.onnx);
        return values;
      }
      std::vector<Shape> shapes;
      for (std::size_t i = 0; i < count; ++i) shapes.push_back(tensor_shape(a.tensors[i]));
      return shapes;
    }
    case OPBRIDGE_INT:
      return Dim(a.ints[0], host.sizes);
    case OPBRIDGE_INTS:
      return shape_of(a.ints, count);
    case OPBRIDGE_FLOAT:
      return a.floats[0];
    case OPBRIDGE_FLOATS:
      return std::vector<double>(a.floats, a.floats + count);
    case OPBRIDGE_STRING:
      return std::string(a.strings[0]);
    case OPBRIDGE_STRINGS:
      return std::vector<std::string>(a.strings, a.strings + count);
    case OPBRIDGE_NONE:
      if (argument.type.optional) return std::monostate{};
      break;
    default:
      break;
  }
  throw Error(ErrorCode::invalid_argument, "the argument " + std::string(argument.name) + " is missing");
}

// Whether the kind that a caller passed matches the schema.
bool kind_fits(std::int32_t kind, SchemaType type) {
  if (kind == OPBRIDGE_NONE) return type.optional;
  switch (type.kind) {
    case Kind::tensor:
      return kind == (type.list ? OPBRIDGE_TENSORS : OPBRIDGE_TENSOR);
    case Kind::integer:
    case Kind::sym_int:
    case Kind::boolean:
      return kind == (type.list ? OPBRIDGE_INTS : OPBRIDGE_INT);
    case Kind::floating:
      return kind == (type.list ? OPBRIDGE_FLOATS : OPBRIDGE_FLOAT);
    case Kind::string:
      return kind == (type.list ? OPBRIDGE_STRINGS : OPBRIDGE_STRING);
  }
  return false;
}

ElementType element_type_of(const opbridge_argument& a, const SchemaArgument& argument) {
  if (a.count == 0 || a.tensors == nullptr) return ElementType::undefined;
  for (std::int32_t i = 1; i < a.count; ++i) {
    if (a.tensors[i].element_type != a.tensors[0].element_type) throw several_types(argument);
  }
  return static_cast<ElementType>(a.tensors[0].element_type);
}

std::vector<Value> decode(const LibraryOperator& op, std::span<const opbridge_argument> arguments,
                          const Caller& host) {
  const Schema& schema = op.schema;
  if (arguments.size() != schema.argument_count) {
    throw Error(ErrorCode::invalid_argument, "takes " + std::to_string(schema.argument_count) + " arguments");
  }
  std::vector<Value> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const SchemaArgument& argument = schema.arguments[i];
    if (!kind_fits(arguments[i].kind, argument.type)) {
      throw Error(ErrorCode::invalid_argument, "the argument " + std::string(argument.name) +
                                                   " is not of type " + type_text(argument.type));
    }
    values.push_back(value_of(arguments[i], argument, host));
  }
  return values;
}

void infer(const LibraryOperator& op, std::span<const opbridge_argument> arguments,
           const opbridge_shape_host* host) {
  const std::vector<Value> values = decode(op, arguments, {host, nullptr});
  std::vector<ElementType> types;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const SchemaArgument& argument = op.schema.arguments[i];
    if (argument.type.is_tensor()) types.push_back(element_type_of(arguments[i], argument));
  }
  const LibraryKernel& kernel = select_kernel(op.kernels, types);
  const std::vector<std::vector<Shape>> outputs = infer_shapes(op, values);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const Shape& shape : outputs[i]) {
      std::vector<opbridge_dim> dims;
      for (const Dim& dim : shape) {
        opbridge_dim handle = dim.handle();
        if (dim.is_from_data()) check_host(host->data_size(host->user, &handle));
        dims.push_back(handle);
      }
      const opbridge_tensor_type type{static_cast<std::int32_t>(kernel.outputs[i]),
                                      static_cast<std::int32_t>(dims.size()), dims.data()};
      check_host(host->output(host->user, static_cast<std::int32_t>(i), &type));
    }
  }
}

void lower(const LibraryOperator& op, std::span<const opbridge_argument> arguments,
           const opbridge_onnx_host* host) {
  const Lowering* chosen = nullptr;
  for (const Lowering& lowering : op.lowerings) {
    if (lowering.since <= host->opset && (chosen == nullptr || lowering.since > chosen->since))
      chosen = &lowering;
  }
  if (chosen == nullptr) throw OwnNode{};
  GraphBuilder g(*host);
  std::vector<opbridge_value> results;
  for (const op::Value& value : chosen->run(g, decode(op, arguments, {host->sizes, host})))
    results.push_back(value.handle());
  check_onnx_host(host->results(host->user, results.data(), static_cast<std::int32_t>(results.size())));
}

std::int32_t lowered_since(const LibraryOperator& op) {
  const auto lowest = std::ranges::min_element(op.lowerings, {}, &Lowering::since);
  return lowest == op.lowerings.end() ? 0 : std::max(lowest->since, 1);
}

// Runs `f` on the operator. An exception becomes the `error`, prefixed with the operator's name. Returns
// whether there was none.
template <class F>
bool run_on_operator(std::int32_t index, char* error, std::size_t capacity, const F& f) {
  const auto& operators = library().operators;
  std::string message = "there is no operator with this index";
  if (index >= 0 && static_cast<std::size_t>(index) < operators.size()) {
    const LibraryOperator& op = operators[static_cast<std::size_t>(index)];
    try {
      f(op);
      return true;
    } catch (const OwnNode&) {
      throw;
    } catch (...) {
      message = caught_error(op).what();
    }
  }
  if (capacity > 0) {
    const std::size_t length = std::min(message.size(), capacity - 1);
    std::memcpy(error, message.data(), length);
    error[length] = 0;
  }
  return false;
}

}  // namespace
}  // namespace opbridge::op::detail

using namespace opbridge::op::detail;

extern "C" {

__attribute__((visibility("default"))) const opbridge_operator_table* opbridge_operators(void) {
  static const std::vector<opbridge_operator> rows = [] {
    std::vector<opbridge_operator> result;
    for (const LibraryOperator& op : library().operators) {
      // A schema line is the end of its string literal, so it is null-terminated.
      result.push_back({op.schema.line.data(), op.version, op.backward_of, lowered_since(op)});
    }
    return result;
  }();
  static const opbridge_operator_table table{OPBRIDGE_OPERATOR_ABI, static_cast<std::int32_t>(rows.size()),
                                             rows.data(),
                                             library().error.empty() ? nullptr : library().error.c_str()};
  return &table;
}

__attribute__((visibility("default"))) int opbridge_infer(int32_t index, const opbridge_argument* arguments,
                                                          int32_t count, const opbridge_shape_host* host,
                                                          char* error, size_t capacity) {
  const bool done = run_on_operator(index, error, capacity, [&](const LibraryOperator& op) {
    infer(op, {arguments, static_cast<std::size_t>(count)}, host);
  });
  return done ? 0 : 1;
}

__attribute__((visibility("default"))) int opbridge_lower(int32_t index, const opbridge_argument* arguments,
                                                          int32_t count, const opbridge_onnx_host* host,
                                                          char* error, size_t capacity) {
  try {
    const bool done = run_on_operator(index, error, capacity, [&](const LibraryOperator& op) {
      lower(op, {arguments, static_cast<std::size_t>(count)}, host);
    });
    return done ? OPBRIDGE_LOWERED : OPBRIDGE_LOWERING_FAILED;
  } catch (const OwnNode&) {
    return OPBRIDGE_OWN_NODE;
  }
}

}  // extern "C"
