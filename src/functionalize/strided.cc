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

// Whether the operator, from `offset` on, accesses memory outside `elements`; false if that is not known.
bool reaches_outside(const ir::Node& node, const View& elements, const Dim& offset) {
  const auto* strides = std::get_if<std::vector<int64_t>>(given(node, "stride"));
  const ir::AttributeValue* written = given(node, "src");  // of as_strided_scatter
  const ir::Value* window = written ? std::get<ir::Value*>(*written) : node.outputs.at(0);
  const ir::TensorType& type = window->tensor_type();
  if (offset.is_static() && offset.value() < 0) return true;
  if (strides == nullptr || !type.is_static() || !elements.type().is_static()) return false;
  Dim last = offset;
  for (size_t i = 0; i < std::min(strides->size(), type.rank()); ++i) {
    const Dim& dim = (*type.dims)[i];
    if (dim.is(0)) return false;
    last = last + (dim - 1) * Dim((*strides)[i]);
  }
  return last.is_static() && last.value() >= tensor::element_count(*elements.type().dims).value();
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
    if (from.is_static() && !reaches_outside(node, shown, from)) {
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
