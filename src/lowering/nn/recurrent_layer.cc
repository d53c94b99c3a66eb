#include "lowering/nn/recurrent_layer.h"

#include <fmt/format.h>

#include <algorithm>

namespace opbridge::lowering {
namespace {

// ONNX's operator for a cell. The weights have `blocks` blocks of the hidden size; `gates` lists the block
// ranges [begin, end) of PyTorch's weights in ONNX's order.
struct Operator {
  const char* name;
  int64_t blocks;
  std::vector<std::pair<int64_t, int64_t>> gates;
  const char* activation;  // for an operator with a choice of activations
};

const Operator& operator_of(Cell cell) {
  static const Operator operators[] = {
      {"LSTM", 4, {{0, 1}, {3, 4}, {1, 3}}, nullptr},  // i f g o → i o f c
      {"GRU", 3, {{1, 2}, {0, 1}, {2, 3}}, nullptr},   // r z n → z r h
      {"RNN", 1, {{0, 1}}, "Tanh"},
      {"RNN", 1, {{0, 1}}, "Relu"},
  };
  return operators[static_cast<size_t>(cell)];
}

int64_t hidden_size(GraphBuilder& g, Cell cell, const Direction& direction) {
  const Dim& rows = direction.w_hh.dim(0);
  if (!rows.is_static()) g.refuse("the hidden size must be a constant");
  return rows.value() / operator_of(cell).blocks;
}

// PyTorch does not check them: it broadcasts what they make of the input and of the state. A dynamic size may
// be 1 when the model runs; only products check theirs, that of the features.
void check_weights(GraphBuilder& g, Cell cell, Value input, const std::vector<Value>& states,
                   const Direction& direction) {
  const Dim hidden = hidden_size(g, cell, direction), rows = operator_of(cell).blocks * hidden;
  const auto differs = [](const Dim& a, const Dim& b) { return a.is_static() && b.is_static() && a != b; };
  const auto check = [&](const char* name, Value weight, const Dim& columns, bool fits) {
    if (weight.rank() != 2) g.refuse(fmt::format("{} has {} dims instead of 2", name, weight.rank()));
    if (weight.dim(0) == rows && fits) return;
    g.refuse(fmt::format("{} is ({}, {}), but the input and the state need ({}, {})", name,
                         weight.dim(0).str(), weight.dim(1).str(), rows.str(), columns.str()));
  };
  check("w_ih", direction.w_ih, input.dim(2), !differs(direction.w_ih.dim(1), input.dim(2)));
  const Dim& of_state = direction.w_hh.dim(1);
  if (direction.projection) {
    check("w_hh", direction.w_hh, states[0].dim(2), !differs(of_state, states[0].dim(2)));
  } else {
    check("w_hh", direction.w_hh, hidden, of_state == hidden);
  }
  for (size_t i = direction.projection ? 1 : 0; i < states.size(); ++i) {
    if (differs(states[i].dim(2), hidden))
      g.refuse(fmt::format("the initial state has the size {}, but the weights are for {}",
                           states[i].dim(2).str(), hidden.str()));
  }
}

Value reorder_gates(GraphBuilder& g, Value weight, Cell cell, int64_t hidden) {
  const auto& gates = operator_of(cell).gates;
  if (gates.size() == 1) return weight;
  std::vector<Value> blocks;
  for (const auto& [begin, end] : gates) blocks.push_back(g.slice(weight, 0, begin * hidden, end * hidden));
  return g.concat(std::move(blocks), 0);
}

// A bias of one element holds for all gates. PyTorch's cells add a bias of any rank that broadcasts.
Value bias_of_gates(GraphBuilder& g, Value bias, int64_t size) {
  if (bias.rank() > 1) {
    if (!element_count(first_dims(bias.dims(), bias.rank() - 1)).is(1))
      g.refuse("a bias for each sequence is not supported; add it to the input");
    bias = g.reshape(bias, {bias.dim(-1)});
  }
  return bias.rank() == 1 && bias.dim(0).is(size) ? bias : g.expand(bias, std::vector{Dim(size)});
}

std::vector<Value> by_operator(GraphBuilder& g, Cell cell, Value input, const std::optional<Lengths>& lengths,
                               const std::vector<Value>& states, std::span<const Direction> directions) {
  const Operator& op = operator_of(cell);
  const int64_t hidden = hidden_size(g, cell, directions[0]);
  const Dim length = input.dim(0), batch = input.dim(1), both = static_cast<int64_t>(directions.size());
  std::vector<Value> w, r, b;
  const auto ordered = [&](Value weight) { return reorder_gates(g, weight, cell, hidden); };
  for (const Direction& direction : directions) {
    w.push_back(g.unsqueeze(ordered(direction.w_ih), {0}));
    r.push_back(g.unsqueeze(ordered(direction.w_hh), {0}));
    const auto bias = [&](Value given) { return ordered(bias_of_gates(g, given, op.blocks * hidden)); };
    if (direction.b_ih)
      b.push_back(g.unsqueeze(g.concat({bias(*direction.b_ih), bias(*direction.b_hh)}, 0), {0}));
  }
  std::vector<Operand> operands{input, g.concat(w, 0), g.concat(r, 0), b.empty() ? Value() : g.concat(b, 0),
                                lengths ? lengths->counts : Value()};
  operands.insert(operands.end(), states.begin(), states.end());
  operands.push_back(attr("hidden_size", hidden));
  if (directions.size() == 2) operands.push_back(attr("direction", "bidirectional"));
  if (cell == Cell::gru) operands.push_back(attr("linear_before_reset", 1));
  if (op.activation)
    operands.push_back(attr("activations", std::vector<std::string>(directions.size(), op.activation)));

  std::vector<Value> made = g.op_list(op.name, 1 + states.size(), std::move(operands));
  g.typed(made[0], {length, both, batch, hidden});
  for (size_t i = 1; i < made.size(); ++i) g.typed(made[i], {both, batch, hidden});
  made[0] = directions.size() == 1
                ? g.squeeze(made[0], {1})
                : g.reshape(g.transpose(made[0], {0, 2, 1, 3}), {length, batch, Dim(2 * hidden)});
  return made;
}

// The states after a step. `x` is the input's contribution to the gates.
std::vector<Value> step(GraphBuilder& g, Cell cell, Value x, const std::vector<Value>& states,
                        const Direction& transposed, int64_t hidden) {
  Value before = states[0];
  Value own = g.op("MatMul", before, transposed.w_hh);
  if (transposed.b_hh) own = g.op("Add", own, *transposed.b_hh);
  const auto sum = [&](Value a, Value b) { return g.op("Add", a, b); };
  const auto product = [&](Value a, Value b) { return g.op("Mul", a, b); };
  const auto open = [&](Value gate) { return g.op("Sigmoid", gate); };
  const auto gates = [&](Value value) {
    const std::vector<Dim> sizes(operator_of(cell).blocks, Dim(hidden));
    return g.split(value, 1, sizes);
  };
  if (cell == Cell::gru) {
    const std::vector<Value> of_x = gates(x), of_own = gates(own);
    Value reset = open(sum(of_x[0], of_own[0])), update = open(sum(of_x[1], of_own[1]));
    Value fresh = g.op("Tanh", sum(of_x[2], product(reset, of_own[2])));
    return {sum(product(g.op("Sub", before, fresh), update), fresh)};
  }
  Value all = sum(x, own);
  if (cell != Cell::lstm) return {g.op(cell == Cell::tanh ? "Tanh" : "Relu", all)};
  const std::vector<Value> of = gates(all);
  Value memory = sum(product(open(of[1]), states[1]), product(open(of[0]), g.op("Tanh", of[2])));
  Value made = product(open(of[3]), g.op("Tanh", memory));
  if (transposed.projection) made = g.op("MatMul", made, *transposed.projection);
  return {made, memory};
}

// One direction as a loop over the steps: returns the output and the states (batch, size) after it. All
// values have the same opmath type.
std::vector<Value> by_steps(GraphBuilder& g, Cell cell, Value input, const std::optional<Lengths>& lengths,
                            const std::vector<Value>& states, const Direction& direction, bool backwards) {
  const ElementType type = input.element_type();
  const int64_t hidden = hidden_size(g, cell, direction);
  const auto transposed_weight = [&](Value weight) { return g.transpose(g.cast(weight, type), {1, 0}); };
  Direction transposed{transposed_weight(direction.w_ih), transposed_weight(direction.w_hh), {}, {}, {}};
  if (direction.b_hh) transposed.b_hh = g.cast(*direction.b_hh, type);
  if (direction.projection) transposed.projection = transposed_weight(*direction.projection);
  Value x = g.op("MatMul", input, transposed.w_ih);
  if (direction.b_ih) x = g.op("Add", x, g.cast(*direction.b_ih, type));

  std::vector<Operand> operands(states.begin(), states.end());
  std::vector<ir::TensorType> types;
  for (Value state : states) types.push_back({type, state.dims()});
  operands.push_back(x);
  types.push_back({type, std::vector<Dim>{input.dim(1), direction.w_ih.dim(0)}});
  if (lengths) {
    operands.push_back(g.unsqueeze(lengths->runs, {2}));
    types.push_back({ElementType::boolean, std::vector<Dim>{input.dim(1), Dim(1)}});
  }
  const int64_t slices = lengths ? 2 : 1;
  operands.push_back(attr("body", g.subgraph("step", types, [&](GraphBuilder& b, std::vector<Value> in) {
    const std::vector<Value> before(in.begin(), in.begin() + states.size());
    std::vector<Value> after = step(b, cell, in[states.size()], before, transposed, hidden);
    for (size_t i = 0; lengths && i < after.size(); ++i)
      after[i] = b.op("Where", in.back(), after[i], before[i]);
    after.push_back(after[0]);
    return after;
  })));
  operands.push_back(attr("num_scan_inputs", slices));
  if (backwards) {
    operands.push_back(attr("scan_input_directions", std::vector<int64_t>(slices, 1)));
    operands.push_back(attr("scan_output_directions", std::vector<int64_t>{1}));
  }
  std::vector<Value> made = g.op_list("Scan", states.size() + 1, std::move(operands));
  for (size_t i = 0; i < states.size(); ++i) g.typed(made[i], types[i]);
  g.typed(made.back(), {type, std::vector{input.dim(0), input.dim(1), states[0].dim(-1)}});
  std::ranges::rotate(made, made.end() - 1);
  return made;
}

}  // namespace

std::vector<Value> recurrent_layer(GraphBuilder& g, Cell cell, Value input,
                                   const std::optional<Lengths>& lengths, const std::vector<Value>& states,
                                   std::span<const Direction> directions) {
  if (!is_floating_point(input.element_type()))
    g.refuse("recurrent layers of integers are not supported; cast the inputs and weights to float32");
  for (const Direction& direction : directions) check_weights(g, cell, input, states, direction);
  // ONNX's operators have no projections.
  const bool is_operator = !directions[0].projection;
  return (is_operator ? by_operator : recurrent_layer_by_steps)(g, cell, input, lengths, states, directions);
}

std::vector<Value> recurrent_layer_by_steps(GraphBuilder& g, Cell cell, Value input,
                                            const std::optional<Lengths>& lengths,
                                            const std::vector<Value>& states,
                                            std::span<const Direction> directions) {
  const ElementType type = input.element_type(), kernel = opmath_type(type);
  input = g.cast(input, kernel);
  std::vector<std::vector<Value>> parts(1 + states.size());
  for (size_t i = 0; i < directions.size(); ++i) {
    std::vector<Value> own;
    const auto index = static_cast<int64_t>(i);
    for (Value state : states)
      own.push_back(g.squeeze(g.slice(g.cast(state, kernel), 0, index, index + 1), {0}));
    const std::vector<Value> made = by_steps(g, cell, input, lengths, own, directions[i], i == 1);
    parts[0].push_back(made[0]);
    for (size_t k = 1; k < made.size(); ++k) parts[k].push_back(g.unsqueeze(made[k], {0}));
  }
  std::vector<Value> results{g.cast(g.concat(parts[0], -1), type)};
  for (size_t k = 1; k < parts.size(); ++k) results.push_back(g.cast(g.concat(parts[k], 0), type));
  return results;
}

}  // namespace opbridge::lowering
