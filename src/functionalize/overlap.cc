#include "functionalize/overlap.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "functionalize/arguments.h"
#include "functionalize/strides.h"

namespace opbridge::functionalization {
namespace {

// The indices of one axis: `count` of them from `start` on.
struct Range {
  Dim start, count;
  Dim step = 1;

  Dim last() const { return start + (count - 1) * step; }
};

// The part of a base that a view shows.
struct Part {
  std::vector<Range> ranges;  // by axis of the base
  std::vector<size_t> axes;   // the base's axis of each axis of the view
  bool is_exact = true;       // otherwise the view shows some of these elements, in some order
};

bool is_certainly_negative(const Dim& dim) {
  const std::optional<int64_t> least = (Dim(0) - dim).least();
  return least && *least > 0;
}

bool is_certainly_not_negative(const Dim& dim) { return dim.least().value_or(-1) >= 0; }

// An index that the program gives, of an axis of `size`; nothing if it may be one from the end.
std::optional<Dim> index_of(const ir::Node& node, std::string_view argument, const Dim& size) {
  const ir::AttributeValue* value = given(node, argument);
  if (value == nullptr) return Dim(0);
  const auto* tensor = std::get_if<ir::Value*>(value);
  if (tensor != nullptr && (*tensor == nullptr || !is_number(**tensor))) return std::nullopt;
  const Dim index = functionalization::size(node, argument);
  if (is_certainly_not_negative(index))
    return index.is_static() && size.is_static() ? min(index, size) : index;
  if (index.is_static()) return max(index + size, 0);
  return std::nullopt;
}

// Narrows the part to that of `view`, a view of the tensor that it was.
void narrow(Memory& memory, const View& view, Part& part) {
  const ir::Node& node = *view.node;
  const std::vector<Dim>& from = *view.base->type().dims;
  const auto cut = [&](size_t axis, std::optional<Dim> start, const Dim& count, const Dim& step = 1) {
    part.is_exact = start.has_value();
    if (!start) return;
    Range& range = part.ranges[part.axes[axis]];
    range = {range.start + *start * range.step, count, range.step * step};
  };
  const auto choose = [&](size_t axis, std::optional<Dim> index) {
    cut(axis, index, 1);
    part.axes.erase(part.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  };
  switch (view.kind) {
    case ViewKind::slice: {
      const size_t axis = functionalization::axis(node, "dim", 0, from.size());
      const Dim step = given(node, "step") == nullptr ? Dim(1) : size(node, "step");
      return cut(axis, index_of(node, "start", from[axis]), view.type().dims->at(axis), step);
    }
    case ViewKind::narrow: {
      const size_t axis = functionalization::axis(node, "dim", 0, from.size());
      return cut(axis, index_of(node, "start", from[axis]), view.type().dims->at(axis));
    }
    case ViewKind::split: {
      const size_t axis = cut_axis(node, from.size());
      return cut(axis, memory.emitter().bounds_of_split(node, axis, view.index + 1)[view.index],
                 view.type().dims->at(axis));
    }
    case ViewKind::select: {
      const size_t axis = functionalization::axis(node, "dim", 0, from.size());
      return choose(axis, index_of(node, "index", from[axis]));
    }
    case ViewKind::unbind:
      return choose(cut_axis(node, from.size()), Dim(static_cast<int64_t>(view.index)));
    case ViewKind::permute: {
      std::vector<size_t> axes;
      for (size_t axis : permutation(node, from.size())) axes.push_back(part.axes[axis]);
      part.axes = std::move(axes);
      return;
    }
    default:
      part.is_exact = false;
  }
}

Part part_of(Memory& memory, const View& view, const View& base) {
  Part part;
  for (const Dim& dim : *base.type().dims) part.ranges.push_back({0, dim});
  part.axes.resize(part.ranges.size());
  std::iota(part.axes.begin(), part.axes.end(), 0);
  std::vector<const View*> path;
  for (const View* each = &view; each != &base; each = each->base) path.push_back(each);
  for (; part.is_exact && !path.empty(); path.pop_back()) {
    if (path.back()->type().ranked()) {
      narrow(memory, *path.back(), part);
    } else {
      part.is_exact = false;
    }
  }
  return part;
}

View& common_base(View& one, const View& other) {
  std::vector<const View*> bases;
  for (const View* each = &other; each != nullptr; each = each->base) bases.push_back(each);
  View* base = &one;
  while (std::ranges::find(bases, base) == bases.end()) base = base->base;
  return *base;
}

bool are_disjoint(const Range& a, const Range& b) {
  const Dim apart = b.start - a.start;
  if (is_certainly_negative(a.last() - b.start) || is_certainly_negative(b.last() - a.start)) return true;
  return a.step == b.step && a.step.is_static() && apart.is_static() && apart.value() % a.step.value() != 0;
}

}  // namespace

bool reads_changed_elements(Memory& memory, View& target, View& source, bool copies) {
  if (&target == &source || target.storage != source.storage) return false;
  View& base = common_base(target, source);
  if (!base.type().ranked()) return false;
  const Part written = part_of(memory, target, base), read = part_of(memory, source, base);
  for (size_t axis = 0; axis < written.ranges.size(); ++axis)
    if (are_disjoint(written.ranges[axis], read.ranges[axis])) return false;
  if (!written.is_exact || !read.is_exact || read.axes.size() > written.axes.size()) return false;

  // The source broadcasts: its axes are the last ones of the target.
  const auto last = written.axes.end() - static_cast<std::ptrdiff_t>(read.axes.size());
  std::vector<Dim> distances;  // how far ahead in memory the source is
  bool repeats = false;
  for (size_t axis = 0; axis < written.ranges.size(); ++axis) {
    const Range &to = written.ranges[axis], &from = read.ranges[axis];
    const auto at = std::ranges::find(written.axes, axis), of = std::ranges::find(read.axes, axis);
    const bool is_broadcast = from.count.is(1) && !to.count.is(1);
    const bool is_aligned = of == read.axes.end() || to.count.is(1) ||
                            (at != written.axes.end() && at - last == of - read.axes.begin());
    if (!is_aligned && !is_broadcast) return true;
    if (is_broadcast) {
      repeats = true;
    } else if (from.count.is(1) && to.count.is(1)) {
      continue;  // the same row or another one, all of which is then elsewhere
    } else if (!(from.start == to.start)) {
      distances.push_back(from.start - to.start);
    }
  }
  if (repeats && (!copies || !distances.empty())) return true;
  if (std::ranges::all_of(distances, is_certainly_not_negative)) return false;
  if (is_contiguous(base) == Certainty::yes) return !is_certainly_not_negative(distances.front());
  return true;
}

}  // namespace opbridge::functionalization
