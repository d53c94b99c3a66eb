// Declarations shared by the parts of the Python module `opbridge._core`.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "opbridge/error.h"
#include "opbridge/ir.h"
#include "opbridge/registry.h"

namespace opbridge::python {

namespace nb = nanobind;

// A graph owned by Python. A stage that consumes a graph takes it out of its handle; using the handle
// afterwards is an error, not a crash.
class GraphHandle {
 public:
  explicit GraphHandle(ir::Graph graph) : graph_(std::make_shared<ir::Graph>(std::move(graph))) {}

  ir::Graph& get() const {
    if (graph_ == nullptr) throw_consumed();
    return *graph_;
  }
  // The graph as the body of a control-flow node, shared with this handle.
  const ir::GraphPtr& share() const {
    get();
    return graph_;
  }
  ir::Graph take() {
    ir::Graph graph = std::move(get());
    graph_.reset();
    return graph;
  }
  void put(ir::Graph graph) { graph_ = std::make_shared<ir::Graph>(std::move(graph)); }

 private:
  [[noreturn]] static void throw_consumed() {
    throw Error(ErrorCode::invalid_argument, "this graph was already exported; capture the model again");
  }

  ir::GraphPtr graph_;
};

// A torch-level value referenced by Python: the number of its builder, and its index there.
struct ProgramValue {
  uint32_t builder = 0;
  uint32_t index = 0;
};

// In the handler of an exception: throws a ForeignError if it is one of opbridge.errors.
void throw_as_error(const nb::python_error& raised);

void bind_comparison(nb::module_& module);
void bind_errors(nb::module_& module);
void bind_dim(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_pipeline(nb::module_& module);
void bind_program(nb::module_& module);
void bind_symbolic(nb::module_& module);
void bind_weights(nb::module_& module);

// The registry wrapped by a Python `Registry`.
const SymbolicRegistry& registry_of(nb::handle registry);

}  // namespace opbridge::python
