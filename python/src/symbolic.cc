// The registry, and the `g` of symbolic functions written in Python.
#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "attribute.h"
#include "bindings.h"
#include "opbridge/registry.h"
#include "support/operator_library.h"

namespace opbridge::python {
namespace {

// The builder of the call that is being lowered. Python may keep `g` and its values, which are invalid after
// the call.
struct Session {
  GraphBuilder* builder;
  std::shared_ptr<Session> outer;  // for a subgraph, the session of the enclosing graph
};
using SessionPtr = std::shared_ptr<Session>;

// Ends a session when it goes out of scope.
struct End {
  Session& session;
  ~End() { session.builder = nullptr; }
};

GraphBuilder& builder_of(const SessionPtr& session) {
  if (!session->builder) {
    throw Error(ErrorCode::invalid_argument,
                "g or one of its values is used after the symbolic function has returned");
  }
  return *session->builder;
}

struct PyValue {
  SessionPtr session;
  Value value;

  Value get() const {
    builder_of(session);
    return value;
  }
};

// A graph that will be the attribute of a node.
struct PySubgraph {
  ir::GraphPtr graph;
};

Dim size_named(std::string_view text) {
  return Dim::parse(text, [](const std::string& symbol, auto) { return Dim::symbol(symbol); });
}

Dim to_size(nb::handle dim) {
  return nb::isinstance<nb::str>(dim) ? size_named(nb::cast<std::string>(dim)) : to_dim(dim);
}

ir::TensorType to_tensor_type(int element_type, nb::handle dims) {
  ir::TensorType type{static_cast<ElementType>(element_type), std::nullopt};
  if (dims.is_none()) return type;
  type.dims.emplace();
  for (nb::handle dim : items(dims)) type.dims->push_back(to_size(dim));
  return type;
}

nb::object dims_of(const ir::TensorType& type) {
  if (!type.ranked()) return nb::none();
  nb::list dims;
  for (const Dim& dim : *type.dims)
    dims.append(dim.is_static() ? nb::cast(dim.value()) : nb::cast(dim.str()));
  return dims;
}

class PyBuilder {
 public:
  explicit PyBuilder(SessionPtr session) : session_(std::move(session)) {}

  // `inputs` holds Values and None. `attributes` holds tuples (name, kind, value) with the kinds of torch's
  // ONNX attributes: i, f, s, t, g, st (a sparse tensor) and tp (a type), and the list form of each.
  nb::list op(const std::string& name, nb::handle inputs, nb::handle attributes, size_t outputs) {
    std::vector<Operand> operands;
    for (nb::handle input : items(inputs)) operands.push_back(value_of(input));
    for (nb::handle item : items(attributes)) {
      const auto [attribute, kind, value] = nb::cast<std::tuple<std::string, std::string, nb::object>>(item);
      operands.push_back(Attr{attribute, attribute_value(kind, value)});
    }
    nb::list made;
    for (Value value : builder().op_list(name, outputs, std::move(operands))) made.append(wrap(value));
    return made;
  }

  // A constant tensor with a copy of the bytes. A number (`is_number`) adopts the element type of the tensor
  // it is combined with.
  PyValue constant(const nb::tuple& tensor, bool is_number) {
    ir::Weight weight = to_weight(tensor);
    return {session_,
            is_number ? builder().number(std::move(weight)) : builder().constant(std::move(weight))};
  }

  PyValue number(nb::handle value) { return {session_, builder().number(to_scalar(value))}; }

  PyValue cast(const PyValue& value, int element_type) {
    return {session_, builder().cast(visible(value), static_cast<ElementType>(element_type))};
  }

  PyValue scalar(nb::handle value, int element_type) {
    return {session_, builder().scalar(to_scalar(value), static_cast<ElementType>(element_type))};
  }

  PyValue reshape(const PyValue& value, nb::handle dims) {
    const std::vector<Dim> to = sizes_given(dims);
    // The operator computes what stands for -1.
    const bool is_open = std::ranges::any_of(to, [](const Dim& dim) { return dim.is(-1); });
    if (is_open) return {session_, builder().op("Reshape", visible(value), builder().sizes(to))};
    return {session_, builder().reshape(visible(value), to)};
  }
  PyValue expand(const PyValue& value, nb::handle dims) {
    return {session_, builder().expand(visible(value), sizes_given(dims))};
  }
  PyValue transpose(const PyValue& value, std::vector<int64_t> permutation) {
    return {session_, builder().transpose(visible(value), std::move(permutation))};
  }
  PyValue squeeze(const PyValue& value, std::vector<int64_t> axes) {
    return {session_, builder().squeeze(visible(value), std::move(axes))};
  }
  PyValue unsqueeze(const PyValue& value, std::vector<int64_t> axes) {
    return {session_, builder().unsqueeze(visible(value), std::move(axes))};
  }
  PyValue concat(nb::handle values, int64_t axis) {
    std::vector<Value> parts;
    for (nb::handle item : items(values)) parts.push_back(visible(nb::cast<const PyValue&>(item)));
    return {session_, builder().concat(std::move(parts), axis)};
  }
  PyValue slice(const PyValue& value, int64_t axis, nb::handle start, nb::handle end, int64_t step) {
    return {session_, builder().slice(visible(value), axis, bound(start), bound(end), step)};
  }
  nb::list split(const PyValue& value, int64_t axis, nb::handle sizes) {
    nb::list parts;
    for (Value part : builder().split(visible(value), axis, sizes_given(sizes))) parts.append(wrap(part));
    return parts;
  }
  PyValue reduce(const std::string& name, const PyValue& value, std::vector<int64_t> axes, bool keepdims) {
    return {session_, builder().reduce(name, visible(value), std::move(axes), keepdims)};
  }
  PyValue sizes(nb::handle dims) { return {session_, builder().sizes(sizes_given(dims))}; }
  PyValue shape_of(const PyValue& value) { return {session_, builder().shape_of(visible(value))}; }
  PyValue dim_of(const PyValue& value, int64_t axis) {
    return {session_, builder().dim_of(visible(value), axis)};
  }
  // A tuple: element type, dims.
  nb::tuple result(size_t index) {
    if (index >= builder().result_count())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the call has {} results, and g.result({}) asks for another",
                              builder().result_count(), index));
    const ir::TensorType& type = builder().result(index);
    return nb::make_tuple(static_cast<int>(type.element_type), dims_of(type));
  }

  // A body whose inputs have the types `inputs`, tuples (element type, dims). `build(g, values)` makes its
  // nodes and returns its outputs, a list of Values.
  PySubgraph subgraph(std::string name, nb::handle inputs, const nb::callable& build) {
    std::vector<ir::TensorType> types;
    for (nb::handle item : items(inputs)) {
      const auto [element_type, dims] = nb::cast<std::tuple<int, nb::object>>(item);
      types.push_back(to_tensor_type(element_type, dims));
    }
    const auto build_body = [&](GraphBuilder& body, const std::vector<Value>& values) {
      const auto session = std::make_shared<Session>(Session{&body, session_});
      const End end{*session};
      PyBuilder g(session);
      nb::list arguments;
      for (const Value value : values) arguments.append(g.wrap(value));
      const nb::object returned = build(nb::cast(g), arguments);
      std::vector<Value> outputs;
      for (nb::handle output : items(returned))
        outputs.push_back(g.visible(nb::cast<const PyValue&>(output)));
      return outputs;
    };
    return {builder().subgraph(std::move(name), std::move(types), build_body)};
  }

  void add_function(std::string domain, std::string name, int version, nb::bytes bytes) {
    builder().add_function({std::move(domain), std::move(name), version, {bytes.c_str(), bytes.size()}});
  }

  void refuse(const std::string& reason) { builder().refuse(reason); }
  int opset() { return builder().opset(); }
  size_t result_count() { return builder().result_count(); }
  std::string source() {
    const ir::Node* call = builder().call();
    return call ? call->source.line : "";
  }

  nb::object wrap(Value value) { return value ? nb::cast(PyValue{session_, value}) : nb::none(); }

  // The argument that a symbolic function receives; tensors and sizes known only at run time become Values.
  nb::object to_python(const SymbolicCall& call, const ir::AttributeValue& value) {
    return std::visit([&](const auto& item) { return convert(call, item); }, value);
  }

 private:
  GraphBuilder& builder() { return builder_of(session_); }

  // Checks that the value belongs to this graph or one around it.
  Value visible(const PyValue& value) const {
    const Value result = value.get();
    for (SessionPtr session = session_; session != nullptr; session = session->outer) {
      if (session == value.session) return result;
    }
    throw Error(ErrorCode::invalid_argument,
                "a value of a subgraph is used outside it; make its nodes with the g passed to its function");
  }
  Value value_of(nb::handle input) const {
    return input.is_none() ? Value() : visible(nb::cast<const PyValue&>(input));
  }

  // From ints, texts of symbolic sizes, and int64 Values of one element.
  std::vector<Dim> sizes_given(nb::handle dims) {
    std::vector<Dim> result;
    for (nb::handle dim : items(dims)) {
      const PyValue* value = nullptr;
      if (nb::try_cast(dim, value)) {
        result.push_back(builder().as_dim(visible(*value)));
      } else {
        result.push_back(to_size(dim));
      }
    }
    return result;
  }

  // A bound of a slice, in either form.
  Value bound(nb::handle given) {
    const PyValue* value = nullptr;
    return nb::try_cast(given, value) ? visible(*value) : builder().size(to_size(given));
  }

  // From a tuple: element type, dims, and the bytes, or a list of strings for a tensor of strings.
  static ir::Weight to_weight(nb::handle tensor) {
    auto [element_type, dims, content] = nb::cast<std::tuple<int, std::vector<int64_t>, nb::object>>(tensor);
    if (static_cast<ElementType>(element_type) == ElementType::string) {
      return ir::Weight::of_strings(nb::cast<std::vector<std::string>>(content), std::move(dims));
    }
    const auto bytes = nb::cast<nb::bytes>(content);
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    auto owner = std::make_shared<const std::vector<std::byte>>(begin, begin + bytes.size());
    return {static_cast<ElementType>(element_type), std::move(dims), std::span(*owner), owner};
  }

  static Scalar to_scalar(nb::handle value) {
    if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
    if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
    if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
    throw nb::type_error("a number is expected");
  }

  // From a tuple: values, indices, dims.
  static ir::SparseTensor to_sparse_tensor(nb::handle tensor) {
    auto [values, indices, dims] = nb::cast<std::tuple<nb::object, nb::object, std::vector<int64_t>>>(tensor);
    return {to_weight(values), to_weight(indices), std::move(dims)};
  }

  // From a tuple: element type, dims, and whether it is a sequence of such tensors.
  static ir::Type to_type(nb::handle type) {
    const auto [element_type, dims, is_sequence] = nb::cast<std::tuple<int, nb::object, bool>>(type);
    ir::TensorType tensor = to_tensor_type(element_type, dims);
    if (is_sequence) return ir::ListType{{std::move(tensor)}};
    return tensor;
  }

  // Converts one item or a list of items.
  template <class Convert>
  static ir::AttributeValue one_or_list(nb::handle value, const Convert& convert) {
    if (!PyList_Check(value.ptr())) return convert(value);
    std::vector<std::invoke_result_t<Convert, nb::handle>> list;
    for (nb::handle item : items(value)) list.push_back(convert(item));
    return list;
  }

  static ir::AttributeValue attribute_value(const std::string& kind, nb::handle value) {
    if (kind == "i") return one_or_list(value, [](nb::handle item) { return nb::cast<int64_t>(item); });
    if (kind == "f") return one_or_list(value, [](nb::handle item) { return nb::cast<double>(item); });
    if (kind == "s") return one_or_list(value, [](nb::handle item) { return nb::cast<std::string>(item); });
    if (kind == "t") {
      return one_or_list(value, [](nb::handle item) -> std::shared_ptr<const ir::Weight> {
        return std::make_shared<const ir::Weight>(to_weight(item));
      });
    }
    if (kind == "st") {
      return one_or_list(value, [](nb::handle item) -> std::shared_ptr<const ir::SparseTensor> {
        return std::make_shared<const ir::SparseTensor>(to_sparse_tensor(item));
      });
    }
    if (kind == "g") {
      return one_or_list(value, [](nb::handle item) { return nb::cast<const PySubgraph&>(item).graph; });
    }
    if (kind == "tp") return one_or_list(value, to_type);
    throw nb::type_error(("attributes of kind " + kind + " are not known").c_str());
  }

  nb::object convert(const SymbolicCall&, std::monostate) { return nb::none(); }
  nb::object convert(const SymbolicCall&, bool v) { return nb::bool_(v); }
  nb::object convert(const SymbolicCall&, int64_t v) { return nb::int_(v); }
  nb::object convert(const SymbolicCall&, double v) { return nb::float_(v); }
  nb::object convert(const SymbolicCall&, const std::complex<double>& v) {
    return nb::steal(PyComplex_FromDoubles(v.real(), v.imag()));
  }
  nb::object convert(const SymbolicCall&, const std::string& v) { return nb::cast(v); }
  nb::object convert(const SymbolicCall&, const Dim& v) {
    return v.is_static() ? nb::int_(v.value()) : wrap(builder().size(v));
  }
  nb::object convert(const SymbolicCall&, ElementType v) {
    for (auto [dtype, number] : nb::borrow<nb::dict>(torch_types().elements)) {
      if (nb::cast<int>(number) == static_cast<int>(v)) return nb::borrow(dtype);
    }
    return nb::int_(static_cast<int>(v));
  }
  nb::object convert(const SymbolicCall&, const ir::Opaque& v) { return nb::cast(v.text); }
  nb::object convert(const SymbolicCall& call, const ir::Type&) {
    call.g.refuse("a symbolic function written in Python cannot take a type as argument");
  }
  nb::object convert(const SymbolicCall& call, ir::Value* v) { return v ? wrap(call.values[v]) : nb::none(); }
  template <class T>
  nb::object convert(const SymbolicCall& call, const std::vector<T>& list) {
    nb::list result;
    for (const T& item : list) result.append(convert(call, item));
    return result;
  }
  template <class T>
  nb::object convert(const SymbolicCall& call, const std::shared_ptr<T>&) {
    call.g.refuse(
        "a symbolic function written in Python cannot take a graph or a constant tensor as argument");
  }

  SessionPtr session_;
};

// `callback(g, op, names, arguments)` returns the Value or Values of the call.
SymbolicFunction python_function(nb::object callback) {
  return [callback = std::move(callback)](const SymbolicCall& call) {
    const nb::gil_scoped_acquire gil;
    auto session = std::make_shared<Session>(Session{&call.g, nullptr});
    const End end{*session};
    PyBuilder g(session);
    nb::list names, arguments;
    for (const ir::Attribute& attribute : call.node.attributes) {
      names.append(nb::cast(attribute.name));
      arguments.append(g.to_python(call, attribute.value));
    }
    nb::object returned;
    try {
      returned = callback(nb::cast(g), call.node.op, names, arguments);
    } catch (const nb::python_error& raised) {
      throw_as_error(raised);
      throw;
    }
    std::vector<Value> results;
    for (nb::handle item : items(returned))
      results.push_back(item.is_none() ? Value() : nb::cast<PyValue&>(item).get());
    return results;
  };
}

class PyRegistry {
 public:
  SymbolicRegistry registry = SymbolicRegistry::with_bundled();

  void add(std::string key, int opset, bool exactly, nb::object callback, const std::string& label) {
    const OpsetRule rule = exactly ? OpsetRule(Exactly{opset}) : OpsetRule(Since{opset});
    const std::string full_label = label + " for " + key;
    registry.add(Symbolic{std::move(key), std::nullopt, rule, Origin::user,
                          python_function(std::move(callback)), full_label});
  }

  nb::list entries() const {
    nb::list list;
    for (const Symbolic* symbolic : registry.all()) {
      list.append(nb::make_tuple(symbolic->key, symbolic->rule.opset(), symbolic->rule.exactly(),
                                 symbolic->origin == Origin::bundled,
                                 symbolic->schema ? nb::cast(symbolic->schema->str()) : nb::none()));
    }
    return list;
  }
};

}  // namespace

const SymbolicRegistry& registry_of(nb::handle object) {
  return nb::cast<const PyRegistry&>(object).registry;
}

void bind_symbolic(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "operator_libraries",
      [](const std::filesystem::path& path) {
        const support::OperatorLibraries libraries = support::operator_libraries(path);
        return std::pair(libraries.torch.string(), libraries.ort.string());
      },
      "path"_a,
      "The paths of a set's libraries for PyTorch and for ONNX Runtime, which may not exist. `path` is\n"
      "either of them, or their common stem.");
  module.def(
      "operator_library",
      [](const std::filesystem::path& path) { return support::operator_library(path).string(); }, "path"_a,
      "The library for ONNX Runtime that `path` names: the file itself, or else that of the set.");

  nb::class_<PyValue>(module, "Value", "A value of the ONNX graph that a symbolic function builds.")
      .def_prop_ro("name", [](const PyValue& v) { return v.get().get()->name; })
      .def_prop_ro(
          "element_type", [](const PyValue& v) { return static_cast<int>(v.get().element_type()); },
          "The number in ONNX's TensorProto.DataType; 0 if unknown.")
      .def_prop_ro(
          "dims", [](const PyValue& v) { return dims_of(v.get().type()); },
          "Sizes: ints, or the text of symbolic sizes; None if the rank is unknown.")
      .def_prop_ro(
          "constant",
          [](const PyValue& v) -> nb::object {
            const ir::Weight* weight = v.get().weight();
            if (!weight) return nb::none();
            return nb::bytes(weight->bytes.data(), weight->bytes.size());
          },
          "The bytes of a constant; None for a computed value.")
      .def(
          "_set_type",
          [](PyValue& v, int element_type, nb::object dims) {
            v.get().get()->type = to_tensor_type(element_type, dims);
          },
          "element_type"_a, "dims"_a.none())
      .def("__eq__", [](const PyValue& a, const PyValue& b) { return a.value == b.value; })
      .def("__hash__", [](const PyValue& v) { return std::hash<const void*>()(v.value.get()); });

  nb::class_<PySubgraph>(module, "Subgraph", "A graph that will be the attribute of a node.");

  nb::class_<PyBuilder>(module, "GraphBuilder", "Builds ONNX nodes; opbridge.symbolics wraps it as `g`.")
      .def("op", &PyBuilder::op, "name"_a, "inputs"_a, "attributes"_a, "outputs"_a)
      .def("constant", &PyBuilder::constant, "tensor"_a, "is_number"_a)
      .def("number", &PyBuilder::number, "value"_a)
      .def("subgraph", &PyBuilder::subgraph, "name"_a, "inputs"_a, "build"_a)
      .def("scalar", &PyBuilder::scalar, "value"_a, "element_type"_a)
      .def("cast", &PyBuilder::cast, "value"_a, "element_type"_a)
      .def("reshape", &PyBuilder::reshape, "value"_a, "dims"_a)
      .def("expand", &PyBuilder::expand, "value"_a, "dims"_a)
      .def("transpose", &PyBuilder::transpose, "value"_a, "permutation"_a)
      .def("squeeze", &PyBuilder::squeeze, "value"_a, "axes"_a)
      .def("unsqueeze", &PyBuilder::unsqueeze, "value"_a, "axes"_a)
      .def("concat", &PyBuilder::concat, "values"_a, "axis"_a)
      .def("slice", &PyBuilder::slice, "value"_a, "axis"_a, "start"_a, "end"_a, "step"_a)
      .def("split", &PyBuilder::split, "value"_a, "axis"_a, "sizes"_a)
      .def("reduce", &PyBuilder::reduce, "name"_a, "value"_a, "axes"_a, "keepdims"_a)
      .def("sizes", &PyBuilder::sizes, "dims"_a)
      .def("shape_of", &PyBuilder::shape_of, "value"_a)
      .def("dim_of", &PyBuilder::dim_of, "value"_a, "axis"_a)
      .def("result", &PyBuilder::result, "index"_a)
      .def("add_function", &PyBuilder::add_function, "domain"_a, "name"_a, "version"_a, "bytes"_a)
      .def("refuse", &PyBuilder::refuse, "reason"_a)
      .def_prop_ro("opset", &PyBuilder::opset)
      .def_prop_ro("result_count", &PyBuilder::result_count)
      .def_prop_ro("source", &PyBuilder::source);

  nb::class_<PyRegistry>(module, "Registry", "Maps operators and opsets to symbolic functions.")
      .def(nb::init<>(), "Contains every mapping that opbridge ships.")
      .def("__copy__", [](const PyRegistry& self) { return PyRegistry(self); })
      .def("add", &PyRegistry::add, "key"_a, "opset"_a, "exactly"_a, "callback"_a, "label"_a)
      .def(
          "remove",
          [](PyRegistry& self, const std::string& key, int opset) {
            return self.registry.remove(key, opset);
          },
          "key"_a, "opset"_a)
      .def(
          "add_operators",
          [](PyRegistry& self, const std::string& library) { self.registry.add_operators(library); },
          "library"_a, "The mappings of a library of operators written once.")
      .def("entries", &PyRegistry::entries, "Tuples (key, opset, exactly, bundled, schema or None).");
}

}  // namespace opbridge::python
