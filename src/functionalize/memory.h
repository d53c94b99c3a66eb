// Tracks the elements of all tensors while the program is visited in order.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "functionalize/aliases.h"
#include "functionalize/views.h"
#include "opbridge/convert.h"
#include "opbridge/ir.h"

namespace opbridge::functionalization {

class Memory {
 public:
  // `nested`: the graph is the body of a node of another graph.
  Memory(ir::Graph& graph, const FunctionalizeOptions& options, bool nested);

  ir::Graph& graph() { return graph_; }
  Emitter& emitter() { return emitter_; }
  bool is_nested() const { return nested_; }

  // Starts the visit of a node: nodes emitted from now on belong to it, and errors name it.
  void begin(const ir::Node& node);
  const std::string& op() const { return op_; }  // the original operator of that node

  // An unbound value comes from outside the graph; it is bound to a new storage that it owns.
  Tensor& tensor_of(const ir::Value* value);
  View& view_of(const ir::Value* value) { return *tensor_of(value).view; }
  bool is_bound(const ir::Value* value) const { return tensors_.contains(value); }

  void bind(const ir::Value* value, Tensor& tensor) { tensors_[value] = &tensor; }
  Tensor& add_tensor(View& view) { return tensors_storage_.emplace_back(Tensor{&view}); }
  // Binds `value` to a new storage whose elements are `elements`.
  View& bind_new(const ir::Value* value, ir::Value* elements, bool contiguous);
  // Adds the view that output `index` of a view operator returns, with the node's own value.
  View& add_view(View& base, ViewKind kind, const ir::Node& node, size_t index);

  // The value that holds the current elements. A symbolic scalar is returned as it is.
  ir::Value* read(View& view);
  ir::Value* read(ir::Value* value);
  void read_arguments(ir::Node& node);

  // Makes `value`, which has the view's type, the elements of the view, in a new version of its storage.
  void write(View& view, ir::Value* value);

  // Records that the example's layout decides whether `view` shares memory with its source. With a contiguous
  // input, `view` would have its own memory (or, below, that of `source`).
  void own_if_contiguous(View& view);
  void shared_if_contiguous(View& view, const View& source);

  // Prepares a change of the tensor's shape in place, which those that may be the same tensor would see.
  void claim_shape(const Tensor& tensor);

  // Makes the tensor refer to `view`.
  void reassign(Tensor& tensor, View& view);

  // The storages with an owner that were written to, in the order of the first write.
  const std::vector<Storage*>& changed() const { return changed_; }

 private:
  struct Write {
    const View* view;
    std::string op, line;
    bool is_reported = false;
  };

  ir::Value* elements_of(View& view);
  void warn_of_layout(const View& view);
  void claim(Storage& storage);
  void lose_others(const Storage& storage, std::string_view may, std::string_view advice);
  void claim_from_outside(Storage& storage);

  ir::Graph& graph_;
  const FunctionalizeOptions& options_;
  const bool nested_;
  Emitter emitter_;
  const ir::Node* node_ = nullptr;
  std::string op_;
  std::unordered_map<const ir::Value*, Tensor*> tensors_;
  std::deque<Tensor> tensors_storage_;
  std::deque<View> views_;
  std::deque<Storage> storages_;
  std::vector<Storage*> changed_;
  bool depends_on_layout_ = false;
  std::vector<Write> writes_;  // since `depends_on_layout_`
};

// "the input %x", "the buffer or parameter %bias"
std::string describe_owner(const ir::Value& owner);

inline bool is_number(const ir::Value& value) { return std::holds_alternative<ir::ScalarType>(value.type); }
inline bool is_list(const ir::Value& value) { return std::holds_alternative<ir::ListType>(value.type); }

}  // namespace opbridge::functionalization
