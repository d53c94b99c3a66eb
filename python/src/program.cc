// ProgramBuilder for Python: one call into C++ per node of the program.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <map>

#include "attribute.h"
#include "bindings.h"
#include "ir/dim_expr.h"
#include "opbridge/frontend.h"
#include "torch/assertions.h"

namespace opbridge::python {
namespace {

// Keeps a Python object alive from C++; it may be released in any thread.
std::shared_ptr<const void> owner_of(nb::object object) {
  return {object.release().ptr(), [](const void* held) {
            if (!nb::is_alive()) return;
            nb::gil_scoped_acquire gil;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(held)));
          }};
}

class Program {
 public:
  ProgramValue input(std::string name, nb::handle dtype, nb::handle shape) {
    return keep(builder_.input(std::move(name), to_type(dtype, shape)));
  }

  // A program with the inputs of `graph`. `symbols` has a Dim for the name of each symbol in their sizes.
  static Program like(const GraphHandle& graph, const std::map<std::string, Dim>& symbols) {
    const auto with_symbols = [&](const Dim& dim) {
      return dim.is_static() ? dim : Dim(dim_expr::substitute(*dim.expr(), [&](const Expr& symbol) {
        return symbols.at(symbol.name).expr();
      }));
    };
    Program program;
    for (const ir::Value* input : graph.get().inputs) {
      ir::Type type = input->type;
      if (auto* tensor = std::get_if<ir::TensorType>(&type)) {
        for (Dim& dim : tensor->dims.value()) dim = with_symbols(dim);
      } else if (auto* number = std::get_if<ir::ScalarType>(&type)) {
        number->value = with_symbols(number->value);
      }
      program.keep(program.builder_.input(input->name, std::move(type)));
    }
    return program;
  }

  ProgramValue weight(std::string name, nb::handle dtype, std::vector<int64_t> dims, uintptr_t address,
                      size_t byte_count, nb::object owner) {
    ir::Weight weight{to_element_type(dtype),
                      std::move(dims),
                      {reinterpret_cast<const std::byte*>(address), byte_count},
                      owner_of(std::move(owner))};
    return keep(builder_.weight(std::move(name), std::move(weight)));
  }

  // Adds a node in a single Python call. `names` are those of the first `arguments`, `named` are further
  // arguments, and `results` has a tuple (name, dtype, shape) for each output.
  nb::list call(std::string op, nb::handle names, nb::handle arguments, const nb::dict& named,
                nb::handle results, std::string scope, std::string line) {
    const std::vector<nb::handle> leading = items(names);
    const std::vector<nb::handle> positional = items(arguments);
    if (positional.size() > leading.size()) {
      throw Error(ErrorCode::invalid_argument,
                  op + " takes " + std::to_string(leading.size()) + " arguments by position");
    }
    std::vector<ir::Attribute> attributes;
    attributes.reserve(positional.size() + nb::len(named));
    for (size_t i = 0; i < positional.size(); ++i) add(attributes, op, leading[i], positional[i]);
    for (auto [name, argument] : named) add(attributes, op, name, argument);

    ir::Node* node = builder_.call(std::move(op), std::move(attributes), {std::move(scope), std::move(line)});
    nb::list made;
    for (nb::handle result : items(results)) {
      const auto tuple = nb::borrow<nb::tuple>(result);
      ir::Value* value = builder_.result(node, nb::cast<std::string>(tuple[0]), to_type(tuple[1], tuple[2]));
      made.append(nb::cast(keep(value)));
    }
    return made;
  }

  void output(const ProgramValue& value, std::string name) {
    builder_.output(values_.at(value.index), std::move(name));
  }

  GraphHandle finish() { return GraphHandle(std::move(builder_).finish()); }

 private:
  // A shape that is a single Dim denotes a Python number.
  static ir::Type to_type(nb::handle dtype, nb::handle shape) {
    if (nb::isinstance<Dim>(shape)) return ir::ScalarType{to_element_type(dtype), nb::cast<Dim>(shape)};
    return ir::TensorType{to_element_type(dtype), to_dims(shape)};
  }

  void add(std::vector<ir::Attribute>& attributes, const std::string& op, nb::handle name,
           nb::handle argument) {
    try {
      attributes.push_back({nb::cast<std::string>(name), to_attribute(argument, serial_, values_)});
    } catch (const Error& error) {
      throw Error(error.code(), op + ": " + error.message(), error.where());
    }
  }

  ProgramValue keep(ir::Value* value) {
    values_.push_back(value);
    return {serial_, static_cast<uint32_t>(values_.size() - 1)};
  }

  static uint32_t next_serial() {
    static std::atomic<uint32_t> count = 0;
    return ++count;
  }

  ProgramBuilder builder_;
  std::vector<ir::Value*> values_;
  uint32_t serial_ = next_serial();
};

}  // namespace

void bind_program(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "set_torch_types",
      [](nb::object dtype, nb::dict elements, nb::tuple opaque) {
        torch_types() = {std::move(dtype), std::move(elements), std::move(opaque)};
      },
      "dtype"_a, "elements"_a, "opaque"_a,
      "Registers torch's classes: torch.dtype, the ElementType number of each dtype, and the\n"
      "classes without a meaning in ONNX (device, layout, memory_format, Generator).");

  module.def(
      "is_assertion", &torch::is_assertion, "op"_a,
      "Whether the operator only checks a condition that the capture already knows, or prints or profiles.");

  module.def(
      "choose",
      [](GraphHandle& condition, GraphHandle& if_true, GraphHandle& if_false) {
        ir::Graph chosen =
            choose(std::move(condition.get()), std::move(if_true.get()), std::move(if_false.get()));
        for (GraphHandle* used : {&condition, &if_true, &if_false}) used->take();
        return GraphHandle(std::move(chosen));
      },
      "condition"_a, "if_true"_a, "if_false"_a,
      "The program that runs as `if_true` where `condition`, which returns one bool, holds, and otherwise "
      "as\n"
      "`if_false`. Consumes the graphs, which must have the same inputs and outputs of the same types and "
      "ranks.");

  nb::class_<ProgramValue>(module, "ProgramValue", "A value of the program under construction.");

  nb::class_<Program>(module, "ProgramBuilder", "Builds a Graph of PyTorch operators, call by call.")
      .def(nb::init<>())
      .def_static(
          "like", &Program::like, "graph"_a, "symbols"_a,
          "A builder whose graph has the inputs of `graph`, with other Dims for the symbols of its sizes.")
      .def("input", &Program::input, "name"_a, "dtype"_a, "shape"_a)
      .def("weight", &Program::weight, "name"_a, "dtype"_a, "dims"_a, "address"_a, "byte_count"_a, "owner"_a,
           "An initializer whose bytes are borrowed from `owner`, which the graph keeps alive.")
      .def("call", &Program::call, "op"_a, "names"_a, "arguments"_a, "named"_a, "results"_a, "scope"_a,
           "line"_a)
      .def("output", &Program::output, "value"_a, "name"_a)
      .def("finish", &Program::finish,
           "Checks and returns the graph. The builder cannot be used afterwards.");
}

}  // namespace opbridge::python
