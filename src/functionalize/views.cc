#include "functionalize/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "functionalize/arguments.h"
#include "functionalize/strided.h"
#include "functionalize/strides.h"

namespace opbridge::functionalization {
namespace {

using Arguments = std::vector<ir::Attribute>;

const std::vector<Dim>& dims_of(const View& view) {
  if (!view.type().ranked()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("cannot write to %{}, whose rank is unknown", view.form->name),
                view.node == nullptr ? "" : view.node->source.line);
  }
  return *view.type().dims;
}

std::vector<int64_t> inverse(const std::vector<size_t>& order) {
  std::vector<int64_t> result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = static_cast<int64_t>(i);
  return result;
}

int64_t signed_of(size_t axis) { return static_cast<int64_t>(axis); }

ir::AttributeValue number(const Dim& dim) {
  if (dim.is_static()) return dim.value();
  return dim;
}

// One of the results of a split, as the arguments `dim`, `start` and `end` of aten::slice.
Arguments slice_of_split(Emitter& emitter, const View& view) {
  const size_t cut = cut_axis(*view.node, dims_of(*view.base).size());
  const std::vector<Dim>& bounds = emitter.bounds_of_split(*view.node, cut, view.index + 1);
  return {{"dim", signed_of(cut)},
          {"start", number(bounds[view.index])},
          {"end", number(bounds[view.index + 1])}};
}

Arguments slice_of_narrow(const View& view) {
  const std::vector<Dim>& dims = dims_of(*view.base);
  const size_t cut = axis(*view.node, "dim", 0, dims.size());
  Dim start = size(*view.node, "start");
  if (start.is_static() && start.value() < 0) start = start + dims[cut];
  const Dim end = start + size(*view.node, "length");
  return {{"dim", signed_of(cut)}, {"start", number(start)}, {"end", number(end)}};
}

Arguments some_arguments(const ir::Node& node, std::initializer_list<std::string_view> names) {
  Arguments arguments;
  for (std::string_view name : names) copy_argument(arguments, node, name);
  return arguments;
}

[[noreturn]] void refuse_overlap(const View& view) {
  refuse(*view.node,
         fmt::format("an in-place operator writes to the result of {}, several elements of which share "
                     "memory; call .clone() before writing",
                     view.node->op));
}

// Whether an expansion repeats elements, rather than only adding axes of size 1.
bool repeats_elements(const View& view) {
  const std::vector<Dim>& from = dims_of(*view.base);
  const std::vector<Dim>& to = dims_of(view);
  if (to.size() < from.size()) return true;
  const size_t added = to.size() - from.size();
  for (size_t i = 0; i < to.size(); ++i) {
    if (!(i < added ? to[i].is(1) : to[i] == from[i - added])) return true;
  }
  return false;
}

}  // namespace

ir::Value* Emitter::emit(std::string op, Arguments arguments, ir::TensorType type, const ir::Value& form) {
  ir::Node* node = graph_.make_node(std::move(op));
  node->attributes = std::move(arguments);
  if (source_ != nullptr) node->source = *source_;
  place(node);
  return add_result(node, std::move(type), form);
}

ir::Value* Emitter::add_result(ir::Node* node, ir::Type type, const ir::Value& form) {
  return graph_.add_output_of(node, fmt::format("{}~{}", form.name, ++made_), std::move(type));
}

const std::vector<Dim>& Emitter::bounds_of_split(const ir::Node& node, size_t axis, size_t count) {
  std::vector<Dim>& bounds = bounds_.try_emplace(&node, 1, Dim(0)).first->second;
  while (bounds.size() <= count) {
    const ir::TensorType& type = node.outputs[bounds.size() - 1]->tensor_type();
    if (!type.ranked() || type.rank() <= axis)
      refuse(node, node.op + ": the sizes of its results are not known");
    bounds.push_back(bounds.back() + (*type.dims)[axis]);
  }
  return bounds;
}

std::vector<size_t> permutation(const ir::Node& node, size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  const std::string_view op = without_overload(node.op);
  if (rank == 0 || op == "aten::numpy_T") return {order.rbegin(), order.rend()};
  const auto swapped = [&](std::string_view a, int64_t if_a_missing, std::string_view b,
                           int64_t if_b_missing) {
    std::swap(order[axis(node, a, if_a_missing, rank)], order[axis(node, b, if_b_missing, rank)]);
    return order;
  };
  if (op == "aten::transpose" || op == "aten::swapdims") return swapped("dim0", 0, "dim1", 1);
  if (op == "aten::swapaxes") return swapped("axis0", 0, "axis1", 1);
  const bool moves = op == "aten::movedim" || op == "aten::moveaxis";
  constexpr std::array<std::string_view, 5> transposes = {"aten::t", "aten::mT", "aten::mH", "aten::matrix_H",
                                                          "aten::adjoint"};
  if (std::ranges::find(transposes, op) != transposes.end()) {
    if (rank >= 2) std::swap(order[rank - 2], order[rank - 1]);  // a vector is unchanged
    return order;
  }
  if (!moves && op != "aten::permute")
    throw Error(ErrorCode::internal, node.op + " permutes axes in an unknown way");

  // The named axes move to their destinations; the others fill the gaps in order.
  const std::vector<int64_t> from = integers(node, moves ? "source" : "dims");
  std::vector<int64_t> to(from.size());
  std::iota(to.begin(), to.end(), 0);
  if (moves) to = integers(node, "destination");
  constexpr size_t free = -1;
  std::ranges::fill(order, free);
  std::vector<bool> moved(rank);
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    const size_t source = axis(node, from[i], rank);
    size_t& target = order[axis(node, to[i], rank)];
    if (moved[source] || target != free) refuse(node, node.op + " names an axis twice");
    target = source;
    moved[source] = true;
  }
  size_t next = 0;
  for (size_t& source : order) {
    if (source != free) continue;
    while (moved[next]) ++next;
    source = next++;
  }
  return order;
}

size_t cut_axis(const ir::Node& node, size_t rank) {
  const std::string_view op = without_overload(node.op);
  if (op == "aten::hsplit") return axis(node, rank == 1 ? 0 : 1, rank);
  if (op == "aten::vsplit") return axis(node, 0, rank);
  if (op == "aten::dsplit") return axis(node, 2, rank);
  return axis(node, "dim", 0, rank);
}

ir::Value* replay(Emitter& emitter, const View& view, ir::Value* base) {
  const ir::Node& node = *view.node;
  Arguments arguments{{"self", base}};
  std::string op = node.op;
  if (view.kind == ViewKind::split) {
    op = "aten::slice.Tensor";
    for (ir::Attribute& argument : slice_of_split(emitter, view)) arguments.push_back(std::move(argument));
  } else if (view.kind == ViewKind::unbind) {
    op = "aten::select.int";
    arguments.push_back({"dim", signed_of(cut_axis(node, dims_of(*view.base).size()))});
    arguments.push_back({"index", signed_of(view.index)});
  } else {
    arguments = node.attributes;
    *subject(arguments) = base;
  }
  return emitter.emit(std::move(op), std::move(arguments), view.type(), *view.form);
}

ir::Value* write_back(Emitter& emitter, const View& view, ir::Value* base, ir::Value* updated) {
  const ir::Node& node = *view.node;
  const ir::TensorType& type = view.base->type();
  const auto make = [&](std::string op, Arguments first, const Arguments& rest = {}) {
    first.insert(first.end(), rest.begin(), rest.end());
    return emitter.emit(std::move(op), std::move(first), type, *view.base->form);
  };
  // Replaces the part of `base` that the arguments `where` select.
  const auto scatter = [&](std::string op, const Arguments& where) {
    return make(std::move(op), {{"self", base}, {"src", updated}}, where);
  };
  switch (view.kind) {
    case ViewKind::reshape:
      return make("aten::reshape", {{"self", updated}, {"shape", sizes(dims_of(*view.base))}});
    case ViewKind::adjoint:
      if (is_complex(type.element_type)) {
        updated = emitter.emit("aten::conj", {{"self", updated}}, updated->tensor_type(), *view.form);
      }
      [[fallthrough]];
    case ViewKind::permute:
      return make("aten::permute",
                  {{"self", updated}, {"dims", inverse(permutation(node, dims_of(*view.base).size()))}});
    case ViewKind::select:
      return scatter("aten::select_scatter", some_arguments(node, {"dim", "index"}));
    case ViewKind::unbind:
      return scatter("aten::select_scatter", {{"dim", signed_of(cut_axis(node, dims_of(*view.base).size()))},
                                              {"index", signed_of(view.index)}});
    case ViewKind::slice:
      return scatter("aten::slice_scatter", some_arguments(node, {"dim", "start", "end", "step"}));
    case ViewKind::narrow:
      return scatter("aten::slice_scatter", slice_of_narrow(view));
    case ViewKind::split:
      return scatter("aten::slice_scatter", slice_of_split(emitter, view));
    case ViewKind::diagonal: {
      Arguments where = some_arguments(node, {"offset", "dim1", "dim2"});
      if (without_overload(node.op) == "aten::linalg_diagonal") {
        where = {{"offset", integer(node, "offset", 0)},
                 {"dim1", integer(node, "dim1", -2)},
                 {"dim2", integer(node, "dim2", -1)}};
      }
      return scatter("aten::diagonal_scatter", where);
    }
    case ViewKind::strided:
      if (const std::optional<Strides> strides = strides_given(node, "stride");
          !strides || may_share_memory(dims_of(view), *strides))
        refuse_overlap(view);
      return scatter("aten::as_strided_scatter", some_arguments(node, {"size", "stride", "storage_offset"}));
    case ViewKind::expand:
      if (repeats_elements(view)) refuse_overlap(view);
      return make("aten::reshape", {{"self", updated}, {"shape", sizes(dims_of(*view.base))}});
    case ViewKind::bits:
      return make("aten::view.dtype", {{"self", updated}, {"dtype", type.element_type}});
    case ViewKind::real_pairs:
      return make("aten::view_as_complex", {{"self", updated}});
    case ViewKind::complex_numbers:
      return make("aten::view_as_real", {{"self", updated}});
    case ViewKind::real_part:
      return make("aten::complex",
                  {{"real", updated},
                   {"imag", emitter.emit("aten::imag", {{"self", base}}, view.type(), *view.form)}});
    case ViewKind::imaginary_part:
      return make("aten::complex",
                  {{"real", emitter.emit("aten::real", {{"self", base}}, view.type(), *view.form)},
                   {"imag", updated}});
    case ViewKind::conjugate:
      return make("aten::conj", {{"self", updated}});
    case ViewKind::negative:
      return make("aten::neg", {{"self", updated}});
    case ViewKind::overlapping:
      refuse_overlap(view);
    case ViewKind::none:
      break;
  }
  throw Error(ErrorCode::internal, "a view without a kind");
}

}  // namespace opbridge::functionalization
