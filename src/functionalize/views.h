// View operators: made again for newer elements of the base, and inverted for writing through them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "functionalize/aliases.h"
#include "opbridge/ir.h"

namespace opbridge::functionalization {

// Makes nodes in execution order.
class Emitter {
 public:
  explicit Emitter(ir::Graph& graph) : graph_(graph) {}

  // The nodes made from now on come from the same place of the user's program as `node`.
  void set_source(const ir::Node& node) { source_ = &node.source; }

  void place(ir::Node* node) { nodes.push_back(node); }
  // A node with one result, which gets a name like `form`'s.
  ir::Value* emit(std::string op, std::vector<ir::Attribute> arguments, ir::TensorType type,
                  const ir::Value& form);
  // A further result of a node that is there already.
  ir::Value* add_result(ir::Node* node, ir::Type type, const ir::Value& form);

  // Where the first `count` results of a split begin along the axis that it cuts, and where the last of them
  // ends. Kept, as the sums of a split into many parts would take time that grows with their square.
  const std::vector<Dim>& places_of_split(const ir::Node& node, size_t axis, size_t count);

  std::vector<ir::Node*> nodes;

 private:
  std::string name_like(const ir::Value& form);

  ir::Graph& graph_;
  const ir::Source* source_ = nullptr;
  int made_ = 0;
  std::unordered_map<const ir::Node*, std::vector<Dim>> places_;  // of splits
};

// The order in which a view of kind `permute` or `adjoint` takes the axes of its base.
std::vector<size_t> permutation(const ir::Node& node, size_t rank);

// What the view shows of `base`, the elements of the view's base.
ir::Value* replay(Emitter& emitter, const View& view, ir::Value* base);

// `base` with the elements that the view shows replaced by `updated`. Throws Error(unsupported) where several
// elements of the view are one element of the base.
ir::Value* write_back(Emitter& emitter, const View& view, ir::Value* base, ir::Value* updated);

// The axis along which a view of kind `split` or `unbind` cuts.
size_t cut_axis(const ir::Node& node, size_t rank);

}  // namespace opbridge::functionalization
