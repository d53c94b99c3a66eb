// The stage `functionalize`: replaces in-place and view operators by pure ones, in one pass over the nodes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "functionalize/arguments.h"
#include "functionalize/dead_code.h"
#include "functionalize/memory.h"
#include "functionalize/observers.h"
#include "functionalize/outputs.h"
#include "functionalize/strided.h"
#include "functionalize/strides.h"
#include "functionalize/subgraphs.h"
#include "functionalize/writes.h"
#include "ir/inconsistent.h"
#include "ir/queries.h"
#include "opbridge/convert.h"
#include "torch/traits.h"

namespace opbridge {
namespace functionalization {
namespace {

using torch::Effect;

enum class MemoryFormat : uint8_t { as_it_is, contiguous, other };

MemoryFormat memory_format(const ir::Node& node) {
  const ir::AttributeValue* value = given(node, "memory_format");
  if (value == nullptr) return MemoryFormat::as_it_is;
  const auto* opaque = std::get_if<ir::Opaque>(value);
  if (opaque == nullptr) return MemoryFormat::other;
  if (opaque->text.find("preserve") != std::string::npos) return MemoryFormat::as_it_is;
  return opaque->text.find("contiguous") != std::string::npos ? MemoryFormat::contiguous
                                                              : MemoryFormat::other;
}

// They write to a copy that keeps the strides of their tensor.
constexpr std::array<std::string_view, 5> write_to_copy = {"aten::select_scatter", "aten::slice_scatter",
                                                           "aten::diagonal_scatter",
                                                           "aten::as_strided_scatter", "aten::copy"};

bool drops_nothing(const ir::Node& node) {
  const auto is = [&](std::string_view argument, const ir::AttributeValue& expected) {
    const ir::AttributeValue* value = given(node, argument);
    return value != nullptr && *value == expected;
  };
  return is("train", false) || is("p", 0.0);
}

// Whether the effect relates the first tensor to the one result; a view may have several results.
bool concerns_one_tensor(Effect effect) {
  switch (effect) {
    case Effect::same:
    case Effect::alias:
    case Effect::copy:
    case Effect::view:
    case Effect::view_or_copy:
    case Effect::flatten:
    case Effect::contiguous:
    case Effect::convert:
    case Effect::dropout:
    case Effect::complex_view:
    case Effect::rearrange:
      return true;
    case Effect::pure:
    case Effect::unclear:
    case Effect::unclear_alone:
    case Effect::reads_sizes:
    case Effect::reassign:
    case Effect::observes:
    case Effect::refused:
      return false;
  }
  throw Error(ErrorCode::internal, "an operator of unknown effect");
}

size_t count_tensors(ir::Node& node) {
  size_t count = 0;
  node.for_each_use([&](ir::Value*& value) { count += is_number(*value) ? 0 : 1; });
  return count;
}

void set_subject(ir::Node& node, ir::Value* value) {
  ir::Value** found = subject(node.attributes);
  if (found == nullptr) refuse(node, node.op + " needs a tensor");
  *found = value;
}

class Functionalizer {
 public:
  Functionalizer(ir::Graph& graph, const FunctionalizeOptions& options, bool nested)
      : graph_(graph), options_(options), memory_(graph, options, nested) {}

  // Returns whether the graph's outputs may share memory with each other or with anything outside.
  bool run() {
    for (ir::Node* node : std::exchange(graph_.nodes, {})) {
      memory_.begin(*node);
      ir::of_consistent_call(*node, [&] { visit(*node); });
    }
    const bool shares = outputs_share_memory();
    return_outputs(memory_);
    graph_.nodes = std::move(memory_.emitter().nodes);
    drop_dead_nodes(graph_);
    return shares;
  }

 private:
  void visit(ir::Node& node) {
    if (node.op == "opbridge::memory_layout") return note_layout(memory_, node);
    const torch::Traits& traits = torch::traits_of(node.op);
    const Effect effect = traits.effect;
    const ir::Value* self = nullptr;
    if (std::ranges::find(write_to_copy, without_overload(node.op)) != write_to_copy.end()) check_copy(node);
    if (effect != Effect::pure && given(node, "out") != nullptr) {  // what it writes is a copy
      if (traits.view == ViewKind::strided)
        refuse(node, node.op + " reads elements by their place in memory; write its result by copy_()");
      return visit_by_name(node);
    }
    if (concerns_one_tensor(effect)) {
      self = subject(node);
      if (self == nullptr || is_list(*self) || node.outputs.empty()) {
        if (effect == Effect::rearrange) refuse(node, node.op + " has no tensor argument or no result");
        return visit_by_name(node);
      }
      if (effect != Effect::view && node.outputs.size() > 1) refuse(node, node.op + " must have one result");
    }
    switch (effect) {
      case Effect::pure:
        return visit_by_name(node);
      case Effect::refused:
        refuse(node, node.op + " cannot be expressed without side effects");
      case Effect::observes:
        check_observer(node);
        return make_new(node);
      case Effect::unclear:
        return make_perhaps_new(node);
      case Effect::unclear_alone:
        return count_tensors(node) == 1 ? make_perhaps_new(node) : make_new(node);
      case Effect::reads_sizes:
        return make_from_sizes(node);
      case Effect::rearrange:
        return rearrange(node, traits.view, self);
      case Effect::reassign:
        return reassign(node);
      case Effect::same:
        return bind_same(node, self);
      case Effect::alias:
        return memory_.bind(node.outputs.at(0), memory_.add_tensor(memory_.view_of(self)));
      case Effect::copy:
        return copy(node, self);
      case Effect::view:
        if (without_overload(node.op) == "aten::_reshape_alias") check_reshapes(node, self);
        return traits.view == ViewKind::strided ? view_strided(node, self) : view(node, traits.view, self);
      case Effect::view_or_copy:
        return view_or_copy(node, traits.view, self);
      case Effect::flatten:
        return joins_no_dims(node, self) ? bind_same(node, self) : view_or_copy(node, traits.view, self);
      case Effect::contiguous:
        return make_contiguous(node, self);
      case Effect::convert:
        return convert(node, self);
      case Effect::dropout:
        return drops_nothing(node) ? bind_same(node, self) : visit_by_name(node);
      case Effect::complex_view:
        if (!is_complex(ir::element_type(self))) return bind_same(node, self);
        return traits.view == ViewKind::none ? make_new(node) : view(node, traits.view, self);
    }
  }

  void check_copy(const ir::Node& node) {
    const ir::Value* self = subject(node);
    if (self == nullptr || is_number(*self) || !may_share_memory_in_copy(memory_.view_of(self))) return;
    refuse(node,
           fmt::format("{} changes a copy of %{} with the same strides, so that several elements may share "
                       "memory; call .clone() before",
                       node.op, self->name));
  }

  // PyTorch updates the running extrema if the observer is on, and scale and zero point if fake quantization
  // is on. Refuses a call that may change any of them.
  void check_observer(const ir::Node& node) {
    if (!is_zero(weight_of(node, "observer_on"))) {
      refuse(node, node.op +
                       " may change its running minimum and maximum; call "
                       "model.apply(torch.ao.quantization.disable_observer) before the export");
    }
    const Observed observed{weight_of(node, "running_min"), weight_of(node, "running_max"),
                            weight_of(node, "scale"), weight_of(node, "zero_point")};
    if (!is_zero(weight_of(node, "fake_quant_on")) &&
        !is_up_to_date(observed, integer(node, "quant_min", 0), integer(node, "quant_max", 0),
                       flag(node, "symmetric_quant", false))) {
      refuse(node,
             node.op +
                 " may change its scale and zero point, which do not match its running minimum and maximum; "
                 "call the model once before the export");
    }
  }

  // Null if the argument is not a constant.
  const ir::Weight* weight_of(const ir::Node& node, std::string_view argument) {
    const auto* value = std::get_if<ir::Value*>(given(node, argument));
    return value ? memory_.read(*value)->weight : nullptr;
  }

  static bool is_zero(const ir::Weight* weight) {
    return weight && std::ranges::all_of(weight->bytes, [](std::byte byte) { return byte == std::byte{0}; });
  }

  void visit_by_name(ir::Node& node) {
    if (const std::vector<ir::GraphPtr> bodies = node.bodies(); !bodies.empty()) return call(node, bodies);
    if (updates_statistics(node)) return normalize_by_batch(memory_, node);
    const bool is_aten = node.op.starts_with("aten::");
    const OperatorSchema* schema = !is_aten && options_.schema ? options_.schema(node.op) : nullptr;
    if (schema != nullptr) {
      if (!call_by_schema(memory_, node, *schema)) make_new(node);
      return;
    }
    if (const std::optional<Mutation> mutation = mutation_of(node)) {
      if (!mutation->written.empty()) return write_several(memory_, node, *mutation);
      return mutation->outs.empty() ? write_in_place(memory_, node, *mutation)
                                    : write_out(memory_, node, *mutation);
    }
    if (!is_aten && node.outputs.empty() && count_tensors(node) > 0) {
      refuse(node,
             node.op + " returns nothing, so it must write to its arguments; let it return what it writes");
    }
    if (const ir::AttributeValue* out = given(node, "out");
        is_aten && out != nullptr && std::holds_alternative<std::vector<ir::Value*>>(*out))
      refuse(node, node.op + " writes to a list of tensors; write its results by copy_()");
    make_new(node);
  }

  void place_new(ir::Node& node, bool contiguous) {
    memory_.emitter().place(&node);
    for (ir::Value* output : node.outputs) {
      if (!is_number(*output)) memory_.bind_new(output, output, contiguous);
    }
  }

  void make_new(ir::Node& node) {
    bool contiguous = true;
    bool lists = std::ranges::any_of(node.outputs, [](const ir::Value* output) { return is_list(*output); });
    node.for_each_use([&](ir::Value*& value) {
      if (is_number(*value)) return;
      contiguous = contiguous && memory_.view_of(value).contiguous;
      lists = lists || is_list(*value);
    });
    // The elements of lists are not tracked.
    if (lists) return make_perhaps_new(node);
    memory_.read_arguments(node);
    place_new(node, contiguous && makes_contiguous(node));
  }

  void make_from_sizes(ir::Node& node) {
    bool contiguous = true;
    node.for_each_use([&](ir::Value*& value) {
      if (is_number(*value)) return;
      const View& view = memory_.view_of(value);
      contiguous = contiguous && view.contiguous;
      value = view.value;  // an older version has the same sizes
    });
    place_new(node, contiguous && makes_contiguous(node));
  }

  void make_perhaps_new(ir::Node& node) {
    std::vector<Storage*> storages;
    const auto add = [&](const ir::Value* value) {
      if (!is_number(*value)) storages.push_back(memory_.view_of(value).storage);
    };
    node.for_each_use([&](ir::Value*& value) { add(value); });
    memory_.read_arguments(node);
    place_new(node, false);
    const bool expands =
        node.op == "aten::broadcast_tensors" || without_overload(node.op) == "aten::meshgrid";
    for (const ir::Value* output : node.outputs) {
      add(output);
      if (expands && !is_number(*output)) memory_.view_of(output).may_overlap = true;
    }
    for (Storage* storage : storages) link(*storages.front(), *storage);
  }

  // PyTorch flattens a 0-d tensor to a vector.
  static bool joins_no_dims(const ir::Node& node, const ir::Value* self) {
    const size_t rank = self->tensor_type().rank();
    return rank > 0 && node.outputs.at(0)->tensor_type().rank() == rank;
  }

  void bind_same(const ir::Node& node, const ir::Value* self) {
    memory_.bind(node.outputs.at(0), memory_.tensor_of(self));
  }

  void copy(const ir::Node& node, const ir::Value* self) {
    const MemoryFormat format = memory_format(node);
    View& source = memory_.view_of(self);
    memory_.bind_new(
        node.outputs.at(0), memory_.read(source),
        format == MemoryFormat::contiguous || (format == MemoryFormat::as_it_is && source.contiguous));
  }

  // A copy, or the tensor itself.
  void copy_perhaps(const ir::Node& node, const ir::Value* self, bool contiguous) {
    View& source = memory_.view_of(self);
    link(*source.storage, *memory_.bind_new(node.outputs.at(0), memory_.read(source), contiguous).storage);
  }

  void make_contiguous(const ir::Node& node, const ir::Value* self) {
    if (memory_format(node) == MemoryFormat::other) return copy_perhaps(node, self, false);
    View& source = memory_.view_of(self);
    const Certainty is_same = is_contiguous(source);
    const Certainty otherwise = has_layout_of_example(source) ? would_be_contiguous(source) : is_same;
    if (is_same == Certainty::unknown || (is_same == Certainty::yes && otherwise != Certainty::yes))
      return copy_perhaps(node, self, true);
    if (is_same == Certainty::yes) return bind_same(node, self);
    View& copy = memory_.bind_new(node.outputs.at(0), memory_.read(source), true);
    if (otherwise != Certainty::no) memory_.shared_if_contiguous(copy, source);
  }

  void convert(ir::Node& node, const ir::Value* self) {
    const ElementType from = ir::element_type(self);
    if (from == ElementType::undefined || from != ir::element_type(node.outputs.at(0))) return make_new(node);
    if (without_overload(node.op) == "aten::_to_copy" || flag(node, "copy", false)) return copy(node, self);
    // The device or the memory format may change.
    const bool stays = node.op == "aten::to.dtype" && memory_format(node) == MemoryFormat::as_it_is;
    return stays ? bind_same(node, self) : copy_perhaps(node, self, false);
  }

  void view(ir::Node& node, ViewKind kind, const ir::Value* self) {
    view_of(node, kind, memory_.view_of(self));
  }

  // With the strides that a reshape passes, _reshape_alias is `view`; with others it reads other elements.
  void check_reshapes(const ir::Node& node, const ir::Value* self) {
    const std::optional<Strides> strides = strides_given(node, "stride");
    if (!strides || !views_with(memory_.view_of(self), node.outputs.at(0)->tensor_type(), *strides))
      refuse(node, node.op + " with strides that may not be those of a view of that size; use reshape");
  }

  void view_of(ir::Node& node, ViewKind kind, View& base) {
    memory_.read_arguments(node);
    set_subject(node, memory_.read(base));
    memory_.emitter().place(&node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (is_list(*node.outputs[i]))
        refuse(node, node.op + " returns its views as one list value, which is not supported");
      memory_.bind(node.outputs[i], memory_.add_tensor(memory_.add_view(base, kind, node, i)));
    }
  }

  void view_or_copy(ir::Node& node, ViewKind kind, const ir::Value* self) {
    View& base = memory_.view_of(self);
    const ir::TensorType& type = node.outputs.at(0)->tensor_type();
    const Certainty is_view = can_view(base, type);
    const Certainty otherwise = has_layout_of_example(base) ? could_view(base, type) : is_view;
    if (is_view == Certainty::yes) {
      view_of(node, kind, base);
      if (otherwise != Certainty::yes) memory_.own_if_contiguous(memory_.view_of(node.outputs.at(0)));
      return;
    }
    memory_.read_arguments(node);
    place_new(node, is_view == Certainty::no);
    View& copy = memory_.view_of(node.outputs.at(0));
    if (is_view == Certainty::unknown) {
      link(*base.storage, *copy.storage);
    } else if (otherwise != Certainty::no) {
      memory_.shared_if_contiguous(copy, base);
    }
  }

  void view_strided(ir::Node& node, const ir::Value* self) {
    View& shown = memory_.view_of(self);
    View& elements = read_by_strides(memory_, node, shown);
    const std::string_view op = without_overload(node.op);
    if (op == "aten::as_strided") return view_of(node, ViewKind::strided, elements);
    if (op == "aten::as_strided_scatter" && &elements != &shown) refuse_layout(node);
    memory_.read_arguments(node);
    set_subject(node, memory_.read(elements));
    place_new(node, true);
  }

  // Whether the view is of an input that is not contiguous in the example, as the captures note before its
  // first use. Inputs of the ONNX model have no layout.
  static bool has_layout_of_example(const View& view) {
    const Storage& storage = *view.storage;
    return storage.owner != nullptr && storage.owner->weight == nullptr && !storage.whole->contiguous;
  }

  // `transpose_` and similar operators: the tensor refers to another view from now on.
  void rearrange(ir::Node& node, ViewKind kind, const ir::Value* self) {
    Tensor& tensor = memory_.tensor_of(self);
    const ir::Value* owner = tensor.view->storage->owner;
    if (owner != nullptr && &memory_.tensor_of(owner) == &tensor) {
      refuse(node, fmt::format("{} changes the shape of {}; use the operator without the underscore", node.op,
                               describe_owner(*owner)));
    }
    memory_.claim_shape(tensor);
    const std::string_view name = without_overload(node.op);
    const std::string overload = name == "aten::transpose_" ? ".int" : node.op.substr(name.size());
    node.op = std::string(name.substr(0, name.size() - 1)) + overload;
    view_of(node, kind, *tensor.view);
    tensor.view = &memory_.view_of(node.outputs.at(0));
    memory_.bind(node.outputs.at(0), tensor);
  }

  // `set_`, and `data =`, which returns nothing: the tensor takes the view of the second argument.
  void reassign(ir::Node& node) {
    std::vector<const ir::Value*> tensors;
    node.for_each_use([&](ir::Value*& value) { tensors.push_back(value); });
    if (tensors.size() != 2) refuse(node, node.op + " takes two tensors");
    Tensor& tensor = memory_.tensor_of(tensors[0]);
    memory_.reassign(tensor, memory_.view_of(tensors[1]));
    for (const ir::Value* output : node.outputs) {
      if (!is_number(*output)) memory_.bind(output, tensor);
    }
  }

  void call(ir::Node& node, const std::vector<ir::GraphPtr>& bodies) {
    std::vector<Storage*> storages;
    for_each_use_in_subgraphs(node, [&](ir::Value*& value) {
      if (is_number(*value) || !memory_.is_bound(value)) return;  // made inside the body, or further outside
      View& view = memory_.view_of(value);
      storages.push_back(view.storage);
      value = memory_.read(view);
    });
    bool shares = false;
    for (const ir::GraphPtr& body : bodies) shares |= Functionalizer(*body, options_, true).run();
    if (shares && memory_.is_nested())
      refuse(node, node.op + " in a subgraph returns a tensor from outside of it; call .clone() on it");
    if (!shares) return make_new_or_initial(node);
    make_perhaps_new(node);
    for (const ir::Value* output : node.outputs) {
      if (!is_number(*output)) storages.push_back(memory_.view_of(output).storage);
    }
    for (Storage* storage : storages) link(*storages.front(), *storage);
  }

  static std::vector<ir::Value*> values(const ir::Node& node, std::string_view argument) {
    const auto* found = std::get_if<std::vector<ir::Value*>>(given(node, argument));
    return found == nullptr ? std::vector<ir::Value*>() : *found;
  }

  // Without a step, a loop returns the initial states themselves in eager mode.
  void make_new_or_initial(ir::Node& node) {
    std::vector<ir::Value*> initial;
    bool may_be_empty = true, is_empty = false;
    if (node.op == "higher_order::while_loop" && given(node, "arg4") != nullptr) {
      initial = values(node, "arg2");  // not those of torch.while_loop, which returns copies
    } else if (node.op == "higher_order::scan") {
      const std::vector<ir::Value*> slices = values(node, "arg2");
      if (!slices.empty() && slices[0]->tensor_type().ranked()) {
        const Dim& length = slices[0]->tensor_type().dims->at(0);
        initial = values(node, "arg1");
        may_be_empty = length.least().value_or(0) < 1;
        is_empty = length.is(0);
      }
    }
    std::vector<Tensor*> states;
    for (const ir::Value* state : initial)
      states.push_back(is_number(*state) ? nullptr : &memory_.tensor_of(state));
    make_new(node);
    if (!may_be_empty || states.size() > node.outputs.size()) return;
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] == nullptr || is_number(*node.outputs[i])) continue;
      if (is_empty) {
        memory_.bind(node.outputs[i], *states[i]);
      } else {
        link(*states[i]->view->storage, *memory_.view_of(node.outputs[i]).storage);
      }
    }
  }

  bool outputs_share_memory() {
    std::unordered_set<const Storage*> seen;
    return std::ranges::any_of(graph_.outputs, [&](const ir::Value* output) {
      if (is_number(*output)) return false;
      const Storage& storage = *memory_.view_of(output).storage;
      return storage.owner != nullptr || storage.maybe_same != nullptr || !seen.insert(&storage).second;
    });
  }

  ir::Graph& graph_;
  const FunctionalizeOptions& options_;
  Memory memory_;
};

}  // namespace
}  // namespace functionalization

ir::Graph functionalize(ir::Graph graph, const FunctionalizeOptions& options) {
  functionalization::Functionalizer(graph, options, false).run();
  return graph;
}

}  // namespace opbridge
