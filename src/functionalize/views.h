// View operators: applied again to newer elements of the base, and inverted for writes through them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "functionalize/aliases.h"
#include "opbridge/ir.h"

namespace opbridge::functionalization {

// Collects nodes in execution order.
class Emitter {
 public:
  explicit Emitter(ir::Graph& graph) : graph_(graph) {}

  // Gives the nodes that are made from now on the source line of `node`.
  void set_source(const ir::Node& node) { source_ = &node.source; }

  void place(ir::Node* node) { nodes.push_back(node); }
  // Makes a node with one result, whose name derives from that of `form`.
  ir::Value* emit(std::string op, std::vector<ir::Attribute> arguments, ir::TensorType type,
                  const ir::Value& form);
  // Adds a result to an existing node.
  ir::Value* add_result(ir::Node* node, ir::Type type, const ir::Value& form);

  // The begins of the first `count` results of a split along its axis, and the end of the last one. They are
  // cached, since the sums of a split into many parts would otherwise take quadratic time.
  const std::vector<Dim>& bounds_of_split(const ir::Node& node, size_t axis, size_t count);

  std::vector<ir::Node*> nodes;

 private:
  ir::Graph& graph_;
  const ir::Source* source_ = nullptr;
  int made_ = 0;
  std::unordered_map<const ir::Node*, std::vector<Dim>> bounds_;  // of splits
};

// The permutation of the base's axes in a view of kind `permute` or `adjoint`.
std::vector<size_t> permutation(const ir::Node& node, size_t rank);

// Applies the view operator to `base`, the elements of the view's base.
ir::Value* replay(Emitter& emitter, const View& view, ir::Value* base);

// `base` with the view's elements replaced by `updated`. Throws Error(unsupported) if several elements of the
// view are the same element of the base.
ir::Value* write_back(Emitter& emitter, const View& view, ir::Value* base, ir::Value* updated);

// The axis of a view of kind `split` or `unbind`.
size_t cut_axis(const ir::Node& node, size_t rank);

}  // namespace opbridge::functionalization
