// Cumulative sums, products and extrema along one dim.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "lowering/add.h"
#include "lowering/branch.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

bool is_trivial(Value x, int64_t dim) { return x.rank() == 0 || x.dim(dim).is(0); }

// Scans `x` along `dim`: `step` computes the next states from the states and a slice. The first `kept`
// states of all steps are the outputs. `start` is the initial value of a state.
struct State {
  Scalar start;
  ElementType type;
  bool per_element = true;  // otherwise 0-d
};

using Step = std::function<std::vector<Value>(GraphBuilder&, std::span<const Value>)>;

std::vector<Value> scan(GraphBuilder& g, Value x, int64_t dim, const std::vector<State>& states, size_t kept,
                        const Step& step) {
  const int64_t axis = wrap_axis(dim, x.rank());
  const auto steps = [&](GraphBuilder& some) {
    std::vector<Dim> slice = x.dims();
    slice.erase(slice.begin() + axis);
    std::vector<ir::TensorType> types;
    std::vector<Operand> operands;
    for (const State& state : states) {
      const std::vector<Dim> dims = state.per_element ? slice : std::vector<Dim>();
      types.push_back({state.type, dims});
      operands.push_back(filled(some, dims, state.start, state.type));
    }
    types.push_back({x.element_type(), slice});
    operands.push_back(x);
    ir::GraphPtr body = some.subgraph("scan", types, [&](GraphBuilder& b, std::vector<Value> inputs) {
      std::vector<Value> outputs = step(b, inputs);
      for (size_t i = 0; i < kept; ++i) outputs.push_back(outputs[i]);
      return outputs;
    });
    const std::vector<int64_t> axes(kept, axis);
    operands.push_back(attr("body", body));
    operands.push_back(attr("num_scan_inputs", 1));
    operands.push_back(attr("scan_input_axes", std::vector{axis}));
    operands.push_back(attr("scan_output_axes", axes));
    std::vector<Value> results = some.op_list("Scan", states.size() + kept, std::move(operands));
    results.erase(results.begin(), results.end() - static_cast<std::ptrdiff_t>(kept));
    for (size_t i = 0; i < kept; ++i) some.typed(results[i], {states[i].type, x.dims()});
    return results;
  };
  const auto no_steps = [&](GraphBuilder& none) {
    std::vector<Value> results;
    for (size_t i = 0; i < kept; ++i) results.push_back(filled(none, x.dims(), 0, states[i].type));
    return results;
  };
  // ONNX does not define a Scan of no slices.
  std::vector<Value> results = unless_none(g, x.dim(axis), kept, no_steps, steps);
  for (size_t i = 0; i < kept; ++i) g.typed(results[i], {states[i].type, x.dims()});
  return results;
}

// PyTorch accumulates float32 in float64, in which intermediate sums and products do not overflow.
Value widened(GraphBuilder& g, Value x) {
  return x.element_type() == ElementType::float32 ? g.cast(x, ElementType::float64) : x;
}

Value cumsum(GraphBuilder& g, Value self, int64_t dim) {
  return in_opmath_type(g, self, [&](Value x) {
    if (x.rank() == 0) return x;
    Value axis = g.scalar(wrap_axis(dim, x.rank()), ElementType::int64);
    return g.op("CumSum", widened(g, x), axis);
  });
}

Value cumprod(GraphBuilder& g, Value self, int64_t dim) {
  return in_opmath_type(g, self, [&](Value x) {
    if (is_trivial(x, dim)) return x;
    x = widened(g, x);
    return scan(g, x, dim, {{1, x.element_type()}}, 1, [](GraphBuilder& b, std::span<const Value> in) {
      return std::vector{b.op("Mul", in[0], in[1])};
    })[0];
  });
}

// The gradient of element i is the sum of those of all k >= i, each times the product of the elements up to k
// without i. A division by element i would be inexact, and fail at zeros.
Value cumprod_gradient(GraphBuilder& g, Value grad, Value input, int64_t dim, Ignored) {
  const ElementType type = g.result().element_type;
  Value x = operand(g, input, type), dy = operand(g, grad, type);
  if (is_trivial(x, dim)) return grad;
  const auto to_last = [&](Value value) {
    return g.unsqueeze(widened(g, move_axis(g, value, wrap_axis(dim, value.rank()), -1)), {-2});
  };
  x = to_last(x), dy = to_last(dy);
  Value column = arithmetic(g, 0, 1, x.dim(-1)), row = column;
  column = g.unsqueeze(column, {1}), row = g.unsqueeze(row, {0});
  Value others = g.op("Where", g.op("Equal", row, column), g.scalar_like(x, 1), x);
  Value products = scan(
      g, others, -1, {{1, x.element_type()}}, 1,
      [](GraphBuilder& b, std::span<const Value> in) { return std::vector{b.op("Mul", in[0], in[1])}; })[0];
  Value terms = g.op("Where", g.op("Less", row, column), g.scalar_like(x, 0), g.op("Mul", products, dy));
  Value sum = g.reduce("ReduceSum", terms, {-1}, false);
  return g.cast(move_axis(g, sum, -1, wrap_axis(dim, sum.rank())), type);
}

Value logcumsumexp(GraphBuilder& g, Value self, int64_t dim) {
  return in_opmath_type(g, self, [&](Value x) {
    if (is_trivial(x, dim)) return x;
    return scan(g, x, dim, {{-INFINITY, x.element_type()}}, 1,
                [](GraphBuilder& b, std::span<const Value> in) {
                  return std::vector{logaddexp(b, in[0], in[1])};
                })[0];
  });
}

// Cumulative extrema and their indices: the last of equal values, and NaN from the first NaN on.
std::vector<Value> cumulative_extremum(GraphBuilder& g, bool greatest, Value self, int64_t dim) {
  const ElementType type = self.element_type();
  Value x = operand(g, self, type);
  if (is_trivial(x, dim)) return {self, filled(g, self.dims(), 0, ElementType::int64)};
  const ElementType opmath = x.element_type();
  std::vector<Value> results =
      scan(g, x, dim,
           {{greatest ? lowest_value(type) : highest_value(type), opmath},
            {0, ElementType::int64},
            {0, ElementType::int64, false}},
           2, [&](GraphBuilder& b, std::span<const Value> in) {
             const Value best = in[0], best_index = in[1], index = in[2], value = in[3];
             Value taken = b.op(greatest ? "GreaterOrEqual" : "LessOrEqual", value, best);
             if (is_floating_point(type)) taken = b.op("Or", taken, b.op("IsNaN", value));
             return std::vector{b.op("Where", taken, value, best), b.op("Where", taken, index, best_index),
                                b.op("Add", index, b.scalar(1, ElementType::int64))};
           });
  return {g.cast(results[0], type), results[1]};
}

}  // namespace

void register_cumulative(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Ignored) { return cumsum(g, self, dim); });
  on("aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, Ignored) { return cumprod(g, self, dim); });
  on("aten::cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor", Since{9},
     cumprod_gradient);
  for (const char* name : {"logcumsumexp", "_logcumsumexp"})
    on(fmt::format("aten::{}(Tensor self, int dim) -> Tensor", name), Since{9}, logcumsumexp);
  for (const bool greatest : {true, false}) {
    on(fmt::format("aten::cum{}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
                   greatest ? "max" : "min"),
       Since{9}, [greatest](GraphBuilder& g, Value self, int64_t dim) {
         return cumulative_extremum(g, greatest, self, dim);
       });
  }
}

}  // namespace opbridge::lowering
