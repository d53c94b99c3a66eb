#include "functionalize/strides.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>

#include "functionalize/arguments.h"
#include "functionalize/strided.h"
#include "functionalize/views.h"
#include "tensor/shape.h"
#include "tensor/strides.h"
#include "torch/traits.h"

namespace opbridge::functionalization {
namespace {

// The strides of a view of shape `to` on elements of shape `from` with `strides`, or nothing. The algorithm
// is that of ATen's computeStride: it merges axes that are adjacent in memory and splits them anew. Without
// strides, no axes count as adjacent. Symbolic sizes count as different unless their expressions are equal:
// returned strides hold for all sizes, but "nothing" may be wrong for some.
std::optional<Strides> regroup(const std::vector<Dim>& from, const Strides* strides,
                               const std::vector<Dim>& to) {
  Strides result(to.size(), 1);
  size_t left = to.size();
  Dim step = strides == nullptr || from.empty() ? Dim(1) : strides->back();
  Dim together = 1;
  for (size_t i = from.size(); i-- > 0;) {
    together = together * from[i];
    if (i > 0) {
      const bool follows = strides != nullptr && tensor::steps_over((*strides)[i - 1], together, step);
      if (follows || from[i - 1].is(1)) continue;
    }
    Dim taken = 1;
    while (left > 0 && (!(taken == together) || to[left - 1].is(1))) {
      if (taken.is_static() && together.is_static() && taken.value() >= together.value() &&
          !to[left - 1].is(1))
        break;
      --left;
      result[left] = taken * step;
      taken = taken * to[left];
    }
    if (!(taken == together)) return std::nullopt;
    if (i > 0) {
      if (strides != nullptr) step = (*strides)[i - 1];
      together = 1;
    }
  }
  while (left > 0 && to[left - 1].is(1)) --left;
  if (left > 0) return std::nullopt;
  return result;
}

bool all_static(const std::vector<Dim>& dims) {
  return std::ranges::all_of(dims, [](const Dim& dim) { return dim.is_static(); });
}

bool is_empty(const std::vector<Dim>& dims) {
  return std::ranges::any_of(dims, [](const Dim& dim) { return dim.is(0); });
}

std::optional<Strides> expanded(const std::vector<Dim>& from, const Strides& strides,
                                const std::vector<Dim>& to) {
  if (to.size() < from.size()) return std::nullopt;
  const size_t added = to.size() - from.size();
  Strides result(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i + added]) {
      result[i + added] = strides[i];
    } else if (!from[i].is(1)) {
      return std::nullopt;
    }
  }
  return result;
}

std::optional<Strides> derive(const View& view, const Strides& base) {
  const std::vector<Dim>& from = *view.base->type().dims;
  const std::vector<Dim>& to = *view.type().dims;
  const ir::Node& node = *view.node;
  Strides strides = base;
  const auto without = [&](size_t axis) {
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
    return strides;
  };
  switch (view.kind) {
    case ViewKind::reshape:
      return regroup(from, &base, to);
    case ViewKind::permute:
    case ViewKind::adjoint: {
      const std::vector<size_t> order = permutation(node, from.size());
      for (size_t i = 0; i < order.size(); ++i) strides[i] = base[order[i]];
      return strides;
    }
    case ViewKind::select:
      return without(axis(node, "dim", 0, from.size()));
    case ViewKind::unbind:
      return without(cut_axis(node, from.size()));
    case ViewKind::slice: {
      Dim& stride = strides[axis(node, "dim", 0, from.size())];
      if (given(node, "step") != nullptr) stride = stride * size(node, "step");
      return strides;
    }
    case ViewKind::expand:
      return expanded(from, base, to);
    case ViewKind::diagonal: {
      const bool linalg = node.op == "aten::linalg_diagonal";
      const size_t one = axis(node, "dim1", linalg ? -2 : 0, from.size());
      const size_t other = axis(node, "dim2", linalg ? -1 : 1, from.size());
      strides.push_back(strides[one] + strides[other]);
      for (size_t axis : {std::max(one, other), std::min(one, other)}) without(axis);
      return strides;
    }
    case ViewKind::narrow:
    case ViewKind::split:
    case ViewKind::conjugate:
    case ViewKind::negative:
      return strides;
    case ViewKind::overlapping: {  // unfold
      if (from.empty()) return Strides{1};
      const size_t cut = axis(node, "dimension", 0, from.size());
      strides.push_back(strides[cut]);
      strides[cut] = strides[cut] * size(node, "step");
      return strides;
    }
    case ViewKind::strided:
      return strides_given(node, "stride");
    // The strides of these views are not tracked.
    case ViewKind::none:
    case ViewKind::bits:
    case ViewKind::real_pairs:
    case ViewKind::complex_numbers:
    case ViewKind::real_part:
    case ViewKind::imaginary_part:
      return std::nullopt;
  }
  throw Error(ErrorCode::internal, "a view of an unknown kind");
}

std::optional<Strides> derive_checked(const View& view, const std::optional<Strides>& base) {
  if (!base || !view.base->type().ranked() || !view.type().ranked()) return std::nullopt;
  std::optional<Strides> strides = derive(view, *base);
  return strides && strides->size() == view.type().rank() ? strides : std::nullopt;
}

std::optional<Strides> strides_in_contiguous_storage(const View& view) {
  std::vector<const View*> path;
  for (const View* each = &view; each->base != nullptr; each = each->base) path.push_back(each);
  const ir::TensorType& whole = view.storage->whole->type();
  std::optional<Strides> strides;
  if (whole.ranked()) strides = tensor::row_major_strides(*whole.dims);
  for (; !path.empty(); path.pop_back()) strides = derive_checked(*path.back(), strides);
  return strides;
}

Certainty is_contiguous(const View& view, const std::optional<Strides>& strides) {
  if (!strides) return Certainty::unknown;
  const std::vector<Dim>& dims = *view.type().dims;
  if (is_empty(dims) || tensor::are_row_major(dims, *strides)) return Certainty::yes;
  return all_static(dims) ? Certainty::no : Certainty::unknown;
}

Certainty can_view(const View& view, const std::optional<Strides>& strides, const ir::TensorType& as) {
  const std::vector<Dim>& from = *view.type().dims;
  const std::vector<Dim>& to = *as.dims;
  if (from == to || is_empty(from)) return Certainty::yes;
  if (regroup(from, strides ? &*strides : nullptr, to)) return Certainty::yes;
  return strides && all_static(from) && all_static(to) ? Certainty::no : Certainty::unknown;
}

}  // namespace

bool makes_contiguous(const ir::Node& node) {
  return given(node, "memory_format") == nullptr && torch::traits_of(node.op).kind != torch::Kind::other;
}

bool stays_contiguous(const View& view) {
  if (!view.base->contiguous || !view.type().ranked()) return false;
  const ir::Node& node = *view.node;
  const size_t rank = view.base->type().ranked() ? view.base->type().rank() : 0;
  switch (view.kind) {
    case ViewKind::reshape:
    case ViewKind::bits:
    case ViewKind::conjugate:
    case ViewKind::negative:
      return true;
    // Consecutive indices of the first axis are contiguous in memory.
    case ViewKind::select:
    case ViewKind::narrow:
      return axis(node, "dim", 0, rank) == 0;
    case ViewKind::slice:
      return axis(node, "dim", 0, rank) == 0 && (given(node, "step") == nullptr || size(node, "step").is(1));
    case ViewKind::split:
    case ViewKind::unbind:
      return cut_axis(node, rank) == 0;
    case ViewKind::none:
    case ViewKind::permute:
    case ViewKind::adjoint:
    case ViewKind::diagonal:
    case ViewKind::expand:
    case ViewKind::overlapping:
    case ViewKind::strided:
    case ViewKind::real_pairs:
    case ViewKind::complex_numbers:
    case ViewKind::real_part:
    case ViewKind::imaginary_part:
      return false;
  }
  throw Error(ErrorCode::internal, "a view of an unknown kind");
}

const std::optional<Strides>& strides_of(View& view) {
  // Start at the nearest base whose strides were computed.
  std::vector<View*> path;
  View* known = &view;
  while (!known->strides_computed && !known->contiguous && known->base != nullptr) {
    path.push_back(known);
    known = known->base;
  }
  if (!known->strides_computed) {
    known->strides_computed = true;
    if (known->contiguous && known->type().ranked())
      known->strides = tensor::row_major_strides(*known->type().dims);
  }
  for (; !path.empty(); path.pop_back()) {
    View& next = *path.back();
    next.strides_computed = true;
    next.strides = derive_checked(next, next.base->strides);
  }
  return view.strides;
}

bool may_share_memory(const std::vector<Dim>& dims, const Strides& strides) {
  if (strides.size() != dims.size()) return true;
  if (is_empty(dims)) return false;
  std::vector<size_t> order(dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (all_static(strides))
    std::ranges::stable_sort(order, {}, [&](size_t axis) { return strides[axis].value(); });
  Dim extent(1);
  for (size_t axis : order) {
    if (dims[axis].is(1)) continue;
    const Dim& stride = strides[axis];
    if ((stride - extent).least().value_or(-1) < 0) return true;
    extent = extent + (dims[axis] - Dim(1)) * stride;
  }
  return false;
}

bool may_share_memory_in_copy(View& view) {
  const View* source = &view;
  while (source != nullptr && source->kind != ViewKind::overlapping && source->kind != ViewKind::strided)
    source = source->base;
  if (source == nullptr) return false;
  const std::optional<Strides>& strides = strides_of(view);
  if (!strides) return true;
  const std::vector<Dim>& dims = *view.type().dims;
  std::vector<Dim> apart;
  Strides steps;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (!(*strides)[axis].is(0)) {
      apart.push_back(dims[axis]);
      steps.push_back((*strides)[axis]);
    } else if (dims[axis].least().value_or(0) > 1) {
      return false;  // then PyTorch makes a contiguous copy
    }
  }
  return may_share_memory(apart, steps);
}

Certainty is_contiguous(View& view) {
  return view.contiguous ? Certainty::yes : is_contiguous(view, strides_of(view));
}

std::optional<std::vector<int64_t>> order_in_memory(const std::vector<Dim>& dims, const Strides& strides) {
  if (strides.size() != dims.size()) return std::nullopt;
  std::vector<int64_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  if (all_static(strides)) {
    // The stride of an axis of size 1 is arbitrary.
    std::ranges::stable_sort(order, std::ranges::greater(), [&](int64_t axis) {
      return dims[axis].is(1) ? std::numeric_limits<int64_t>::max() : strides[axis].value();
    });
  }
  if (!tensor::are_dense(dims, strides, order | std::views::reverse)) return std::nullopt;
  return order;
}

Certainty can_view(View& view, const ir::TensorType& as) {
  if (!view.type().ranked() || !as.ranked()) return Certainty::unknown;
  return view.contiguous ? Certainty::yes : can_view(view, strides_of(view), as);
}

bool views_with(View& view, const ir::TensorType& as, const Strides& strides) {
  const std::optional<Strides>& own = strides_of(view);
  if (!own || !as.ranked()) return false;
  const std::vector<Dim>&from = *view.type().dims, &to = *as.dims;
  if (is_empty(from)) return is_empty(to);
  const std::optional<Strides> expected = regroup(from, &*own, to);
  if (!expected || strides.size() != to.size()) return false;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!to[i].is(1) && !(strides[i] == (*expected)[i])) return false;
  }
  return true;
}

Certainty would_be_contiguous(const View& view) {
  return is_contiguous(view, strides_in_contiguous_storage(view));
}

Certainty could_view(const View& view, const ir::TensorType& as) {
  if (!view.type().ranked() || !as.ranked()) return Certainty::unknown;
  return can_view(view, strides_in_contiguous_storage(view), as);
}

}  // namespace opbridge::functionalization
