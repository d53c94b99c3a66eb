// The part of a GraphBuilder that the stages of opbridge need and symbolic functions do not.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge {

class BuilderStage {
 public:
  explicit BuilderStage(GraphBuilder& g) : g_(g) {}

  ir::Graph& graph() const { return *g_.graph_; }

  // A builder of the same graph that has symbols and sizes of its own.
  GraphBuilder scope() const { return {g_, *g_.graph_}; }

  // A builder of the body of a node.
  GraphBuilder inside(ir::Graph& body) const { return {g_, body}; }

  // The functions that `add_function` added.
  const std::vector<OnnxFunction>& functions() const;

  // Reserves a name, so that no node or value gets it.
  void reserve_name(const std::string& name) const;
  // Returns `stem`, with a suffix if that name is taken.
  std::string unique_name(const std::string& stem) const { return g_.unique_name(stem); }
  // Reserves the name of a symbol of the program.
  void reserve_symbol(const std::string& name) const;

  // The constant `value` with other dims and another element type, which must be able to hold its elements.
  // Equal calls share one initializer.
  Value converted(Value value, ElementType type, std::vector<int64_t> dims) const;

  // Nodes made from now on belong to `call`; `symbolic` names the symbolic function in errors. If that is
  // bundled, `op` computes in a wider element type where this version of an ONNX operator does not take the
  // given one, and refuses complex numbers.
  void set_call(const ir::Node* call, std::string symbolic, bool bundled = false) const;

 private:
  GraphBuilder& g_;
};

}  // namespace opbridge
