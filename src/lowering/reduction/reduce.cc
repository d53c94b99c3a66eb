#include "lowering/reduction/reduce.h"

#include <array>
#include <cmath>

#include "lowering/common.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {

Value in_own_type(GraphBuilder& g, std::string_view op, Value a, Value b) {
  const ElementType type = result_type(g, std::array{a, b});
  return g.cast(g.op(op, operand(g, a, type), operand(g, b, type)), type);
}

std::vector<int64_t> axes_of(const Axes& axes, Value value) {
  if (axes && !axes->empty()) return wrap_axes(*axes, value.rank());
  std::vector<int64_t> all;
  for (int64_t axis = 0; axis < value.rank(); ++axis) all.push_back(axis);
  return all;
}

Dim count_of(Value value, const Axes& axes) {
  Dim count(1);
  if (value.rank() == 0) return count;
  for (int64_t axis : axes_of(axes, value)) count = count * value.dim(axis);
  return count;
}

Value sum_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim) {
  return x.rank() == 0 ? x : g.reduce("ReduceSum", x, axes_of(axes, x), keepdim);
}

Value product_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim) {
  return x.rank() == 0 ? x : g.reduce("ReduceProd", x, axes_of(axes, x), keepdim);
}

Value mean_of(GraphBuilder& g, Value x, const Axes& axes, bool keepdim) {
  const Dim count = count_of(x, axes);
  if (may_be_empty(count)) {
    Value sum = g.reduce("ReduceSum", x, axes_of(axes, x), keepdim);
    return g.op("Div", sum, g.cast(g.size(count), x.element_type()));
  }
  return g.reduce("ReduceMean", x, axes_of(axes, x), keepdim);
}

namespace {

// For an order that is known only when the model runs.
Value norm_of_dynamic_order(GraphBuilder& g, Value x, const Scalar& order, const Axes& axes, bool keepdim) {
  Value p = g.scalar(order, ElementType::float64), norm = vector_norm(g, x, 1, axes, keepdim);
  if (const Dim count = count_of(x, axes); !count.is(1)) {
    Value powers = g.op("Pow", g.op("Abs", x), g.cast(p, x.element_type()));
    Value root = g.cast(g.op("Div", g.scalar(1.0, ElementType::float64), p), x.element_type());
    Value of_many = g.op("Pow", g.reduce("ReduceSum", powers, axes_of(axes, x), keepdim), root);
    Value is_one = g.op("Equal", g.size(count), g.scalar(1, ElementType::int64));
    norm = count.is_static() ? of_many : g.op("Where", is_one, norm, of_many);
  }
  const auto choose = [&](double special) {
    Value is_special = g.op("Equal", p, g.scalar(special, ElementType::float64));
    norm = g.op("Where", is_special, vector_norm(g, x, special, axes, keepdim), norm);
  };
  choose(0);
  choose(INFINITY);
  choose(-INFINITY);
  return norm;
}

}  // namespace

Value vector_norm(GraphBuilder& g, Value x, const Scalar& number, const Axes& axes, bool keepdim) {
  if (!number.is_static()) return norm_of_dynamic_order(g, x, number, axes, keepdim);
  const double order = number.to_double();
  if (std::isnan(order)) g.refuse("the order of the norm is NaN");
  auto over = [&](const char* op, Value value) { return g.reduce(op, value, axes_of(axes, x), keepdim); };
  // PyTorch does not raise a single number to a power, since that may overflow. It does for a 0-d tensor
  // along a dim.
  if (order != 0 && x.rank() == 0 && (!axes || axes->empty())) return g.op("Abs", x);
  if (order != 0 && x.rank() > 0 && count_of(x, axes).is(1)) return over("ReduceSum", g.op("Abs", x));
  if (order == 1) return over("ReduceL1", x);
  if (order == 0) {
    Value zero = g.op("Equal", x, g.scalar_like(x, 0));
    return over("ReduceSum", g.cast(g.op("Not", zero), x.element_type()));
  }
  Value size = g.op("Abs", x);
  if (std::isinf(order)) return Extremum(g, order > 0, size).value(axes, keepdim);
  Value norm;
  if (order == 2) {
    norm = over("ReduceL2", x);
  } else {
    Value sum = over("ReduceSum", g.op("Pow", size, g.scalar_like(x, order)));
    norm = g.op("Pow", sum, g.scalar_like(x, 1 / order));
  }
  const Dim count = count_of(x, axes);
  if (x.rank() == 0 || count.is_static()) return norm;
  Value is_one = g.op("Equal", g.size(count), g.scalar(1, ElementType::int64));
  return g.op("Where", is_one, over("ReduceSum", size), norm);
}

Value any_along(GraphBuilder& g, Value x, const Axes& axes, bool keepdim) {
  const std::vector<int64_t> all = axes_of(axes, x);
  const Dim count = count_of(x, axes);
  if (may_be_empty(count)) {  // ReduceMax needs an element
    return g.cast(g.reduce("ReduceSum", g.cast(x, ElementType::int32), all, keepdim), ElementType::boolean);
  }
  if (g.opset() >= 20) return g.reduce("ReduceMax", x, all, keepdim);
  // Before opset 20, ReduceMax does not take booleans.
  return g.cast(g.reduce("ReduceMax", g.cast(x, ElementType::int32), all, keepdim), ElementType::boolean);
}

Value elements_of_median(GraphBuilder& g, Value x) {
  const ElementType type = x.element_type();
  const Dim count = element_count(x);
  if (x.rank() != 1) x = g.reshape(x, std::vector{count});
  if (!may_be_empty(count)) return x;
  // PyTorch converts NaN, to integers too; C++ leaves the result open, which is this on x86 processors.
  const bool is_wide = type == ElementType::int32 || type == ElementType::int64;
  Scalar none = is_wide ? lowest_value(type) : Scalar(0);
  if (is_floating_point(type)) none = Scalar(NAN);
  if (type == ElementType::boolean) none = Scalar(1);
  const Dim at_least_one = max(count, Dim(1));
  return g.op("Concat", x, filled(g, std::vector{at_least_one - count}, none, type), attr("axis", 0));
}

Value renorm_factor(GraphBuilder& g, Value norm, const Scalar& most) {
  Value bound = g.scalar_like(norm, most);
  // PyTorch adds 1e-7 to the norm.
  Value factor = g.op("Div", bound, g.op("Add", norm, g.scalar_like(norm, 1e-7)));
  return g.op("Where", g.op("Greater", norm, bound), factor, g.scalar_like(norm, 1));
}

Value reduced(GraphBuilder& g, Value losses, int64_t reduction) {
  if (reduction == mean_reduction) {
    losses = mean_of(g, losses, {}, false);
  } else if (reduction != no_reduction) {
    losses = g.reduce("ReduceSum", losses, {}, false);
  }
  return g.cast(losses, g.result().element_type);
}

Value segment_offsets(GraphBuilder& g, Value data, std::optional<Value> lengths, std::optional<Value> offsets,
                      int64_t axis) {
  if (!lengths && !offsets) g.refuse("pass lengths or offsets");
  Value bounds = g.cast(offsets ? *offsets : *lengths, ElementType::int64);
  axis = wrap_axis(axis, data.rank());
  if (axis != bounds.rank() - 1) g.refuse("axis must be the last dim of lengths or offsets");
  // PyTorch's kernel reads the offsets, its shape rule the lengths.
  if (lengths && offsets && !(lengths->dim(axis) + Dim(1) == offsets->dim(axis)))
    g.refuse("lengths and offsets have different numbers of segments; pass only one of them");
  if (offsets) return bounds;
  std::vector<Dim> first = bounds.dims();
  first.back() = 1;
  Value sums = g.op("CumSum", bounds, g.scalar(axis, ElementType::int64));
  return g.concat({filled(g, first, 0, ElementType::int64), sums}, axis);
}

Value segments_reduced(GraphBuilder& g, Value x, Value offsets, std::optional<Value> initial,
                       const std::string& reduce) {
  std::vector<Dim> dims = x.dims();
  dims.at(offsets.rank() - 1) = offsets.dim(-1) - Dim(1);
  return kernel(g, "opbridge::segment_reduce", {x, offsets, initial, attr("reduce", reduce)},
                {x.element_type(), std::move(dims)});
}

Extremum::Extremum(GraphBuilder& g, bool greatest, Value self) : g_(g), greatest_(greatest) {
  const ElementType type = self.element_type();
  x_ = operand(g, self, type);
  if (is_floating_point(type)) nan_ = g.op("IsNaN", x_);
}

Value Extremum::value(const Axes& axes, bool keepdim) {
  Value result = g_.reduce(greatest_ ? "ReduceMax" : "ReduceMin", x_, axes_of(axes, x_), keepdim);
  if (!nan_) return result;
  return g_.op("Where", any_nan(axes, keepdim), g_.scalar_like(x_, NAN), result);
}

Value Extremum::index(int64_t axis, bool keepdim) {
  if (x_.rank() == 0) return g_.scalar(0, ElementType::int64);
  auto first = [&](const char* op, Value value) {
    return g_.op(op, value, attr("axis", wrap_axis(axis, x_.rank())), attr("keepdims", keepdim));
  };
  Value result = first(greatest_ ? "ArgMax" : "ArgMin", x_);
  if (!nan_) return result;
  return g_.op("Where", any_nan(std::vector{axis}, keepdim),
               first("ArgMax", g_.cast(nan_, ElementType::int32)), result);
}

Value Extremum::any_nan(const Axes& axes, bool keepdim) { return any_along(g_, nan_, axes, keepdim); }

}  // namespace opbridge::lowering
