// The gradients of reductions of segments. Elements outside of all segments have the gradient 0.
#include <cmath>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/kernel.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

// Maps each element to its segment along the axis of the segments, the last axis of `offsets`.
class Segments {
 public:
  Segments(GraphBuilder& g, Value data, Value offsets) : g_(g), offsets_(offsets), dims_(data.dims()) {
    std::vector<Dim> to = offsets.dims();
    to.back() = data.dim(axis());
    Value positions = g.expand(arithmetic(g, 0, 1, to.back()), to);
    Value index = kernel(g, "opbridge::searchsorted", {ends(), positions, attr("right", true)},
                         {ElementType::int64, to});
    Value none_yet = g.op("Less", positions, g.slice(offsets, axis(), 0, 1));
    index_ = g.op("Where", none_yet, g.size(offsets.dim(axis()) - Dim(1)), index);
  }

  // Gives each element the `value` of its segment, and 0 outside all segments.
  Formula at(Value value) const {
    std::vector<Dim> dims = value.dims();
    dims.at(axis()) = 1;
    value = g_.concat({value, filled(g_, dims, 0, value.element_type())}, axis());
    if (axis() == 0) return {g_, g_.typed(g_.gather(value, index_, 0), dims_)};
    Value everywhere = g_.expand(spread(index_), dims_);
    return {g_, g_.op("GatherElements", value, everywhere, attr("axis", axis()))};
  }

  // Gives each element the sum, or with "prod" the product, of `value` in its segment.
  Formula reduced_at(Value value, const char* reduce = "sum",
                     std::optional<Value> initial = std::nullopt) const {
    return at(segments_reduced(g_, value, offsets_, initial, reduce));
  }

  // The number of elements in each segment, in the given type.
  Value lengths(ElementType type) const {
    Value starts = g_.slice(offsets_, axis(), 0, -1);
    return spread(g_.cast(g_.op("Sub", ends(), starts), type));
  }

 private:
  int64_t axis() const { return offsets_.rank() - 1; }
  Value ends() const { return g_.slice(offsets_, axis(), 1, end_of_axis); }

  // Appends an axis of size 1 for each inner axis of the data.
  Value spread(Value value) const {
    std::vector<int64_t> inner;
    for (int64_t i = offsets_.rank(); i < static_cast<int64_t>(dims_.size()); ++i) inner.push_back(i);
    return inner.empty() ? value : g_.unsqueeze(value, inner);
  }

  GraphBuilder& g_;
  Value offsets_, index_;
  std::vector<Dim> dims_;
};

// The elements equal to the extremum share its gradient. If the gradient is negative, PyTorch gives all of it
// to each of them.
Formula extremum_gradient(const Segments& segments, const Formula& dy, const Formula& x, const Formula& y) {
  Formula hit = node("IsNaN", x) || x == segments.at(y);
  Formula count = segments.reduced_at(where(hit, Formula::number(1, x), 0));
  Formula made = where(hit, segments.at(dy), 0);
  return where(made > 0 && count > 1, made / count, made);
}

// y / x, but the product of the other elements where x is 0 or NaN.
Formula product_gradient(const Segments& segments, const Formula& dy, const Formula& x, const Formula& y,
                         std::optional<Value> initial) {
  const Formula one = Formula::number(1, x);
  Formula is_nan = node("IsNaN", x), is_zero = x == 0;
  const auto among_others = [&](const Formula& condition) {
    Formula number = where(condition, one, 0);
    return segments.reduced_at(number) - number > 0;
  };
  Formula rest = segments.reduced_at(where(is_nan || is_zero, 1, x), "prod", initial);
  Formula others =
      rest * where(among_others(is_nan), Formula::number(NAN, x), where(among_others(is_zero), 0, one));
  return where(is_nan || is_zero, segments.at(dy) * others, segments.at(dy * y) / x);
}

Value segment_gradient(GraphBuilder& g, Value grad, Value output, Value data, std::string reduce,
                       std::optional<Value> lengths, std::optional<Value> offsets, int64_t axis,
                       std::optional<Scalar> initial) {
  const Segments segments(g, data, segment_offsets(g, data, lengths, offsets, axis));
  Formula dy = operand_of_result(g, grad), x = operand_of_result(g, data), y = operand_of_result(g, output);
  const ElementType type = Value(x).element_type();
  std::optional<Value> start;
  if (initial) start = g.scalar(*initial, type);
  Formula made = reduce == "sum"    ? segments.at(dy)
                 : reduce == "mean" ? segments.at(dy / Formula(g, segments.lengths(type)))
                 : reduce == "prod" ? product_gradient(segments, dy, x, y, start)
                                    : extremum_gradient(segments, dy, x, y);
  return g.cast(made, g.result().element_type);
}

}  // namespace

void register_segment_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);
  on("aten::_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, "
     "Tensor? lengths=None, Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor",
     Since{9}, segment_gradient);
}

}  // namespace opbridge::lowering
