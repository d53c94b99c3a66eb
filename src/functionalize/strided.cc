#include "functionalize/strided.h"

#include <algorithm>
#include <utility>

#include "functionalize/arguments.h"
#include "tensor/shape.h"

namespace opbridge::functionalization {
namespace {

void set_offset(ir::Node& node, const Dim& offset) {
  if (offset.is_static()) {
    node.set("storage_offset", offset.value());
  } else {
    node.set("storage_offset", offset);
  }
}

// The view with its axes permuted.
View& permuted(Memory& memory, const ir::Node& node, View& view, const std::vector<int64_t>& order) {
  if (std::ranges::is_sorted(order)) return view;
  std::vector<Dim> dims;
  for (int64_t axis : order) dims.push_back(view.type().dims->at(static_cast<size_t>(axis)));
  ir::Node* permute = memory.graph().make_node("aten::permute");
  permute->attributes = {{"self", memory.read(view)}, {"dims", order}};
  permute->source = node.source;
  memory.graph().add_output_of(permute, node.outputs.at(0)->name + "_memory",
                               ir::TensorType{view.type().element_type, std::move(dims)});
  memory.emitter().place(permute);
  return memory.add_view(view, ViewKind::permute, *permute, 0);
}

const ir::TensorType& type_of_window(const ir::Node& node) {
  const ir::AttributeValue* written = given(node, "src");  // of as_strided_scatter
  return (written ? std::get<ir::Value*>(*written) : node.outputs.at(0))->tensor_type();
}

// The number of elements behind the last one that the operator accesses, if it starts at `offset`. Negative
// if that one is not in `elements`. Nothing if the number is not known, or the operator accesses no element.
std::optional<Dim> elements_behind(const ir::Node& node, const View& elements, const Dim& offset) {
  const std::optional<Strides> strides = strides_given(node, "stride");
  const ir::TensorType& window = type_of_window(node);
  if (!strides || !window.ranked() || !elements.type().ranked()) return std::nullopt;
  Dim last = offset;
  for (size_t i = 0; i < std::min(strides->size(), window.rank()); ++i) {
    const Dim& dim = (*window.dims)[i];
    if (dim.is(0)) return std::nullopt;
    last = last + (dim - 1) * (*strides)[i];
  }
  return tensor::element_count(*elements.type().dims) - 1 - last;
}

// Whether the operator, from `offset` on, accesses memory outside `elements`; false if that is not known.
bool reaches_outside(const ir::Node& node, const View& elements, const Dim& offset) {
  if (offset.is_static() && offset.value() < 0) return true;
  const std::optional<Dim> behind = elements_behind(node, elements, offset);
  return behind && behind->is_static() && behind->value() < 0;
}

// Whether the operator, from `offset` on, accesses no memory outside `shown`, whatever the dynamic sizes are.
bool stays_inside(const ir::Node& node, const View& shown, const Dim& offset) {
  if (reaches_outside(node, shown, offset)) return false;
  const ir::TensorType& memory = shown.storage->whole->type();
  const bool is_all_memory =
      memory.ranked() && tensor::element_count(*memory.dims) == tensor::element_count(*shown.type().dims);
  if (is_all_memory) return true;
  const std::optional<Dim> behind = elements_behind(node, shown, offset);
  return behind && (behind->is_static() || behind->least().value_or(-1) >= 0);
}

// Whether the view and those that it is a view of begin where their storage does.
bool begins_at_start(const View& shown) {
  for (const View* each = &shown; each->base != nullptr; each = each->base)
    if (each->kind != ViewKind::reshape && each->kind != ViewKind::permute) return false;
  return true;
}

}  // namespace

void note_layout(Memory& memory, const ir::Node& node) {
  const ir::Value* self = subject(node);
  if (self == nullptr || is_number(*self)) refuse(node, node.op + " needs a tensor");
  View& view = memory.view_of(self);
  if (given(node, "self_offset") != nullptr) view.storage->start = size(node, "self_offset");
  if (given(node, "self_stride") == nullptr) return;
  view.contiguous = false;
  view.strides_computed = true;
  view.strides = strides_given(node, "self_stride");
  if (!view.type().ranked() || (view.strides && view.strides->size() != view.type().rank()))
    view.strides.reset();
}

// as_strided counts from the start of the storage, even if its argument is a view. The captures record the
// strides and the offset of that view (self_stride, self_offset).
View& read_by_strides(Memory& memory, ir::Node& node, View& shown) {
  const std::optional<Strides> recorded = strides_given(node, "self_stride");
  const Dim start = recorded ? size(node, "self_offset") : Dim(0);
  std::erase_if(node.attributes, [](const ir::Attribute& attribute) {
    return attribute.name == "self_stride" || attribute.name == "self_offset";
  });
  const bool has_offset = given(node, "storage_offset") != nullptr;
  const Dim offset = has_offset ? size(node, "storage_offset") : start;
  if (const auto order = recorded ? order_in_memory(*shown.type().dims, *recorded) : std::nullopt) {
    const Dim from = offset - start;
    if (from.is_static() && stays_inside(node, shown, from)) {
      View& elements = permuted(memory, node, shown, *order);
      if (has_offset) set_offset(node, from);
      return elements;
    }
  }
  View& elements = *shown.storage->whole;
  // If the recorded strides do not follow from a row-major storage, the storage is not row-major.
  const bool contradicts = recorded && strides_of(shown) && !(*strides_of(shown) == *recorded);
  const bool has_start = has_offset || recorded || begins_at_start(shown);
  if (!elements.contiguous || contradicts || !has_start) refuse_layout(node);
  const Dim from = offset - shown.storage->start;
  if (reaches_outside(node, elements, from))
    refuse(node, node.op + " reads memory outside its tensor; pass the whole tensor");
  if (!from.is(0) || has_offset) set_offset(node, from);
  return elements;
}

void refuse_layout(const ir::Node& node) {
  refuse(node, node.op + " of a tensor whose layout in memory is not known; use slicing, unfold or indexing");
}

std::optional<Strides> strides_given(const ir::Node& node, std::string_view argument) {
  const ir::AttributeValue* strides = given(node, argument);
  if (strides == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(strides))
    return Strides(numbers->begin(), numbers->end());
  if (const auto* dims = std::get_if<std::vector<Dim>>(strides)) return *dims;
  return std::nullopt;
}

}  // namespace opbridge::functionalization
