#include "functionalize/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "functionalize/arguments.h"
#include "functionalize/strides.h"

namespace opbridge::functionalization {

Memory::Memory(ir::Graph& graph, const FunctionalizeOptions& options, bool nested)
    : graph_(graph), options_(options), nested_(nested), emitter_(graph) {
  tensors_.reserve(2 * graph.nodes.size());
  for (const std::vector<ir::Value*>* sources : {&graph.inputs, &graph.initializers}) {
    for (const ir::Value* source : *sources) {
      if (!is_number(*source)) tensor_of(source);
    }
  }
}

void Memory::begin(const ir::Node& node) {
  node_ = &node;
  op_ = node.op;
  emitter_.set_source(node);
}

Tensor& Memory::tensor_of(const ir::Value* value) {
  const auto known = tensors_.find(value);
  if (known != tensors_.end()) return *known->second;
  View& whole = bind_new(value, const_cast<ir::Value*>(value), !nested_);
  whole.storage->owner = value;
  return *tensors_.at(value);
}

View& Memory::bind_new(const ir::Value* value, ir::Value* elements, bool contiguous) {
  Storage& storage = storages_.emplace_back();
  View& whole = views_.emplace_back();
  storage.whole = &whole;
  whole.storage = &storage;
  whole.form = value;
  whole.value = elements;
  whole.contiguous = contiguous;
  whole.owner = &whole;
  whole.first_write = writes_.size();
  bind(value, add_tensor(whole));
  return whole;
}

View& Memory::add_view(View& base, ViewKind kind, const ir::Node& node, size_t index) {
  View& view = views_.emplace_back();
  view.storage = base.storage;
  view.base = &base;
  view.kind = kind;
  view.node = &node;
  view.index = index;
  view.form = view.value = node.outputs[index];
  view.version = base.version;
  view.contiguous = stays_contiguous(view);
  view.owner = base.owner;
  view.first_write = writes_.size();
  return view;
}

ir::Value* Memory::read(View& view) {
  if (depends_on_layout_) warn_of_layout(view);
  return elements_of(view);
}

void Memory::warn_of_layout(const View& view) {
  for (size_t i = view.first_write; i < writes_.size(); ++i) {
    Write& write = writes_[i];
    const bool shares = write.view->storage == view.storage, would_share = write.view->owner == view.owner;
    if (shares == would_share || std::exchange(write.is_reported, true)) continue;
    options_.warn(fmt::format(
        "{} at {} {} %{} only because of the memory layout of an input, which is not contiguous in the "
        "example; the "
        "model does the same for all inputs; call .clone() before writing, or pass a contiguous example",
        write.op, write.line, shares ? "changes" : "does not change", view.form->name));
  }
}

void Memory::own_if_contiguous(View& view) {
  depends_on_layout_ = options_.warn != nullptr;
  view.owner = &view;
}

void Memory::shared_if_contiguous(View& view, const View& source) {
  depends_on_layout_ = options_.warn != nullptr;
  view.owner = source.owner;
}

ir::Value* Memory::elements_of(View& view) {
  Storage& storage = *view.storage;
  if (!storage.lost_by.empty()) {
    refuse(*node_,
           fmt::format("{} reads %{} after {} wrote to what may be the same memory or a copy, depending on "
                       "strides; call .clone() before writing",
                       op_, view.form->name, storage.lost_by));
  }
  if (!view.is_stale()) return view.value;
  std::vector<View*> stale;
  for (View* each = &view; each->is_stale(); each = each->base) stale.push_back(each);
  for (; !stale.empty(); stale.pop_back()) {
    View& next = *stale.back();
    emitter_.set_source(*next.node);
    next.value = replay(emitter_, next, next.base->value);
    next.version = storage.version;
  }
  emitter_.set_source(*node_);
  return view.value;
}

ir::Value* Memory::read(ir::Value* value) { return is_number(*value) ? value : read(view_of(value)); }

void Memory::read_arguments(ir::Node& node) {
  node.for_each_use([&](ir::Value*& value) { value = read(value); });
}

void Memory::write(View& view, ir::Value* value) {
  Storage& storage = *view.storage;
  if (storage.whole->may_overlap) {
    refuse(*node_, fmt::format("{} writes to %{}, several elements of which may share memory; call .clone() "
                               "before writing",
                               op_, storage.whole->form->name));
  }
  claim(storage);
  if (view.base == nullptr) {
    storage.lost_by.clear();
  } else {
    elements_of(*view.base);
  }
  const uint64_t version = storage.version + 1;
  for (View* each = &view;; each = each->base) {
    each->value = value;
    each->version = version;
    if (each->base == nullptr) break;
    value = write_back(emitter_, *each, each->base->value, value);
  }
  storage.version = version;
  if (depends_on_layout_) writes_.push_back({&view, op_, node_->source.line});
}

void Memory::reassign(Tensor& tensor, View& view) {
  Storage& storage = *tensor.view->storage;
  if (storage.owner != nullptr && &tensor_of(storage.owner) == &tensor) {
    if (storage.owner->tensor_type() != view.type()) {
      refuse(*node_,
             fmt::format("{} changes the shape or element type of {}", op_, describe_owner(*storage.owner)));
    }
    claim_from_outside(storage);
  }
  tensor.view = &view;
}

void Memory::claim_shape(const Tensor& tensor) {
  if (tensor.view != tensor.view->storage->whole) return;
  lose_others(*tensor.view->storage, "change the shape of", "; use the operator without the underscore");
}

// Prepares a write: it must reach the owner of the storage, and makes the elements of storages that may share
// the memory unknown.
void Memory::claim(Storage& storage) {
  if (storage.owner != nullptr) claim_from_outside(storage);
  lose_others(storage, "write to", ", depending on strides; call .clone() before writing");
}

// Makes the elements of what may be the same memory unknown, unless that outlives the graph: what the
// operator `may` do to it is an error with the `advice`.
void Memory::lose_others(const Storage& storage, std::string_view may, std::string_view advice) {
  if (storage.maybe_same == nullptr) return;
  for (Storage* other : *storage.maybe_same) {
    if (other == &storage) continue;
    if (other->owner != nullptr)
      refuse(*node_, fmt::format("{} may {} {}{}", op_, may, describe_owner(*other->owner), advice));
    other->lost_by = op_;
  }
}

void Memory::claim_from_outside(Storage& storage) {
  const ir::Value& owner = *storage.owner;
  if (nested_) {
    refuse(*node_,
           fmt::format("{} in a subgraph writes to %{}, which comes from outside of it; call .clone() before "
                       "writing",
                       op_, owner.name));
  }
  if (!options_.mutations_as_outputs) {
    refuse(
        *node_,
        fmt::format("{} writes to {}, and ONNX would lose that; {}call .clone() before writing, or ask for "
                    "mutations as outputs",
                    op_, describe_owner(owner),
                    owner.weight == nullptr ? "" : "put the model into evaluation mode, "));
  }
  if (std::ranges::find(changed_, &storage) != changed_.end()) return;
  for (const ir::Value* other : graph_.initializers) {
    if (owner.weight == nullptr || other == &owner) continue;
    const std::span<const std::byte> a = owner.weight->bytes, b = other->weight->bytes;
    if (a.data() < b.data() + b.size() && b.data() < a.data() + a.size()) {
      refuse(*node_, fmt::format("{} writes to {}, which shares memory with {}", op_, describe_owner(owner),
                                 describe_owner(*other)));
    }
  }
  changed_.push_back(&storage);
}

std::string describe_owner(const ir::Value& owner) {
  return fmt::format("the {} %{}", owner.weight == nullptr ? "input" : "buffer or parameter", owner.name);
}

}  // namespace opbridge::functionalization
