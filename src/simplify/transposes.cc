// Shortens chains of Reshape, Squeeze, Unsqueeze and Transpose.
#include <algorithm>
#include <ranges>

#include "ir/dead_code.h"
#include "ir/uses.h"
#include "simplify/passes.h"
#include "simplify/transpose.h"
#include "tensor/constants.h"

namespace opbridge::simplification {
namespace {

using Dims = std::vector<Dim>;

bool is_view(const ir::Node* node) {
  return node &&
         (node->op == "Reshape" || node->op == "Unsqueeze" || node->op == "Squeeze" || node->op == "Flatten");
}

const Dims* dims_of(const ir::Value* value) {
  const auto* type = std::get_if<ir::TensorType>(&value->type);
  return type && type->dims ? &*type->dims : nullptr;
}

// The axes whose size is not 1.
std::vector<int64_t> nontrivial_axes(const Dims& dims) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is(1)) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

bool differ_only_in_ones(const Dims& a, const Dims& b) {
  const auto is_one = [](const Dim& dim) { return dim.is(1); };
  return std::ranges::equal(a | std::views::filter(std::not_fn(is_one)),
                            b | std::views::filter(std::not_fn(is_one)));
}

bool moves_only_ones(const Dims& from, const Permutation& permutation) {
  Permutation others = permutation;
  std::erase_if(others, [&](int64_t axis) { return from[static_cast<size_t>(axis)].is(1); });
  return std::ranges::is_sorted(others);
}

class Chains {
 public:
  explicit Chains(ir::Graph& graph) : graph_(graph), uses_(graph), names_(graph) {}

  bool shorten() {
    const bool replaced = uses_.for_each_node([&](ir::Graph&, ir::Node& node) {
      for (ir::Node* each = &node; is_transpose(each);) each = shorten_transpose(*each);
      if (is_view(&node)) shorten_view(node);
      if (does_nothing(node)) uses_.replace(node.outputs[0], node.inputs[0]);
    });
    if (!changed_ && !replaced) return false;
    ir::remove_dead_code(graph_);  // the input types of dead nodes may be inconsistent now
    return true;
  }

 private:
  // Returns the next Transpose to shorten, or null.
  ir::Node* shorten_transpose(ir::Node& node) {
    ir::Node* before = uses_.producer_beside(node, node.inputs[0]);
    if (is_transpose(before)) {
      const Permutation inner = permutation_of(*before), outer = permutation_of(node);
      Permutation joined;
      for (const int64_t axis : outer) joined.push_back(inner.at(static_cast<size_t>(axis)));
      become_transpose(node, before->inputs[0], joined);
    }
    const Dims *from = dims_of(node.inputs[0]), *to = dims_of(node.outputs[0]);
    if (from && to && moves_only_ones(*from, permutation_of(node))) {
      become_reshape(node, node.inputs[0]);
      return nullptr;
    }
    // transpose(view(transpose(x))) is view(transpose(x)) if the view only adds or removes dims of size 1.
    ir::Node* view = uses_.producer_beside(node, node.inputs[0]);
    if (!to || !is_view(view) || !uses_.once(view->outputs[0])) return nullptr;
    ir::Node* first = uses_.producer_beside(node, view->inputs[0]);
    if (!is_transpose(first) || !uses_.once(first->outputs[0])) return nullptr;
    const std::optional<Transposed> moved = transposed_before(*view, node);
    if (!moved || !tensor::constant_reshape(moved->dims, *to)) return nullptr;
    ir::Value* source = view->inputs[0];
    std::get<ir::TensorType>(view->outputs[0]->type).dims = moved->dims;
    become_transpose(*view, source, moved->permutation);
    become_reshape(node, view->outputs[0]);
    return view;
  }

  void shorten_view(ir::Node& node) {
    ir::Node* before = uses_.producer_beside(node, node.inputs[0]);
    if (is_view(before) && become_reshape(node, before->inputs[0])) return;
    const Dims* to = dims_of(node.outputs[0]);
    if (!to || !is_transpose(before) || !uses_.once(before->outputs[0])) return;
    ir::Node* first = uses_.producer_beside(node, before->inputs[0]);
    if (!is_view(first) || !uses_.once(first->outputs[0])) return;
    // view(transpose(view(x))) is transpose(view(x)) if the outer view only adds or removes dims of size 1 …
    if (const std::optional<Transposed> moved = transposed_after(*before, node)) {
      const Dims* from = dims_of(first->inputs[0]);
      if (from && tensor::constant_reshape(*from, moved->dims)) {
        ir::Value* source = first->inputs[0];
        if (moved->dims != *from) {
          std::get<ir::TensorType>(first->outputs[0]->type).dims = moved->dims;
          become_reshape(*first, source);
          source = first->outputs[0];
        }
        become_transpose(node, source, moved->permutation);
        return;
      }
    }
    // … and view(transpose(x)) if the inner one does.
    const std::optional<Transposed> moved = transposed_before(*first, *before);
    if (!moved || !tensor::constant_reshape(moved->dims, *to)) return;
    std::get<ir::TensorType>(before->outputs[0]->type).dims = moved->dims;
    become_transpose(*before, first->inputs[0], moved->permutation);
    become_reshape(node, before->outputs[0]);
  }

  // A Transpose, and the dims of its result or of its input.
  struct Transposed {
    Permutation permutation;
    Dims dims;
  };

  // For transpose(view(x)): the Transpose of x that equals it up to dims of size 1, and the dims of its
  // result.
  static std::optional<Transposed> transposed_before(const ir::Node& view, const ir::Node& transpose) {
    const Dims *from = dims_of(view.inputs[0]), *to = dims_of(view.outputs[0]);
    if (!from || !to || !differ_only_in_ones(*from, *to)) return std::nullopt;
    const std::vector<int64_t> sources = nontrivial_axes(*from), targets = nontrivial_axes(*to);
    Transposed result;
    for (size_t i = 0; i < from->size(); ++i) {
      if ((*from)[i].is(1)) result.permutation.push_back(static_cast<int64_t>(i));
    }
    for (const int64_t axis : permutation_of(transpose)) {
      const auto target = std::ranges::find(targets, axis);
      if (target != targets.end())
        result.permutation.push_back(sources[static_cast<size_t>(target - targets.begin())]);
    }
    for (const int64_t axis : result.permutation) result.dims.push_back((*from)[static_cast<size_t>(axis)]);
    return result;
  }

  // For view(transpose(x)), where the view only adds or removes dims of size 1: the Transpose that returns
  // the same from x reshaped to other dims, and these dims.
  static std::optional<Transposed> transposed_after(const ir::Node& transpose, const ir::Node& view) {
    const Dims *before = dims_of(transpose.inputs[0]), *between = dims_of(transpose.outputs[0]),
               *after = dims_of(view.outputs[0]);
    if (!before || !between || !after || !differ_only_in_ones(*between, *after)) return std::nullopt;
    const Permutation axes = permutation_of(transpose);
    const std::vector<int64_t> sources = nontrivial_axes(*between), targets = nontrivial_axes(*after);
    Transposed result;
    result.permutation.resize(after->size());
    for (size_t i = 0; i < after->size(); ++i) {
      if (!(*after)[i].is(1)) continue;
      result.permutation[i] = static_cast<int64_t>(result.dims.size());
      result.dims.push_back(Dim(1));
    }
    for (size_t axis = 0; axis < before->size(); ++axis) {
      if ((*before)[axis].is(1)) continue;
      const int64_t moved = std::ranges::find(axes, static_cast<int64_t>(axis)) - axes.begin();
      const auto rank = std::ranges::find(sources, moved) - sources.begin();
      result.permutation[static_cast<size_t>(targets[static_cast<size_t>(rank)])] =
          static_cast<int64_t>(result.dims.size());
      result.dims.push_back((*before)[axis]);
    }
    return result;
  }

  void become_transpose(ir::Node& node, ir::Value* source, const Permutation& permutation) {
    node.op = "Transpose";
    node.attributes = {{"perm", permutation}};
    uses_.set_inputs(node, {source});
    changed_ = true;
  }

  // Turns the node into a Reshape of `source` with a constant shape, if there is one.
  bool become_reshape(ir::Node& node, ir::Value* source) {
    const Dims *from = dims_of(source), *to = dims_of(node.outputs[0]);
    if (!from || !to) return false;
    const std::optional<std::vector<int64_t>> shape = tensor::constant_reshape(*from, *to);
    if (!shape) return false;
    node.op = "Reshape";
    node.attributes.clear();
    ir::Value* constant =
        graph_.add_initializer(names_.unused(node.outputs[0]->name + ":shape"),
                               ir::Weight::of<int64_t>(*shape, {static_cast<int64_t>(shape->size())}));
    uses_.set_inputs(node, {source, constant});
    changed_ = true;
    return true;
  }

  bool does_nothing(const ir::Node& node) const {
    if (uses_.is_output(node.outputs[0])) return false;
    if (is_transpose(&node)) return std::ranges::is_sorted(permutation_of(node));
    const Dims *from = node.op == "Reshape" ? dims_of(node.inputs[0]) : nullptr,
               *to = dims_of(node.outputs[0]);
    return from && to && *from == *to;
  }

  ir::Graph& graph_;
  ir::Uses uses_;
  ir::Names names_;
  bool changed_ = false;
};

}  // namespace

bool canonicalize_transposes(ir::Graph& graph) { return Chains(graph).shorten(); }

}  // namespace opbridge::simplification
