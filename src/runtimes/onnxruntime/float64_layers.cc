// Versions: all that were tried, 1.20 and 1.32.
// Model: LSTM, GRU or RNN of float64.
// Fault: LSTM and GRU fail when they run; RNN has no kernel.
// Rewrite: a Scan over the steps. Forms that no mapping makes stay: one direction in reverse, peepholes,
// other activations, or a GRU that resets before it multiplies.
// Tests: test_runtime_faults.py, test_lowering_recurrent.py, test_packed_sequences.py.
#include <algorithm>
#include <array>
#include <string>

#include "ir/attribute_or.h"
#include "lowering/nn/recurrent_layer.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

using lowering::Cell;

std::optional<Cell> cell_of(const ir::Node& layer) {
  using Names = std::vector<std::string>;
  const auto activations = ir::attribute_or(layer, "activations", Names());
  const auto are_all = [&](const char* name) {
    return std::ranges::all_of(activations, [&](const std::string& each) { return each == name; });
  };
  if (layer.op == "RNN")
    return are_all("Tanh")   ? std::optional(Cell::tanh)
           : are_all("Relu") ? std::optional(Cell::relu)
                             : std::nullopt;
  if (!activations.empty()) return std::nullopt;
  if (layer.op == "LSTM") return Cell::lstm;
  return ir::attribute_or<int64_t>(layer, "linear_before_reset", 0) != 0 ? std::optional(Cell::gru)
                                                                         : std::nullopt;
}

// Weights or biases of a direction, with the blocks of the gates in PyTorch's order.
Value in_order_of_torch(GraphBuilder& g, Cell cell, Value weight, int64_t hidden) {
  std::vector<std::array<int64_t, 2>> blocks;
  if (cell == Cell::lstm) blocks = {{0, 1}, {2, 4}, {1, 2}};  // i o f c to i f c o
  if (cell == Cell::gru) blocks = {{1, 2}, {0, 1}, {2, 3}};   // z r h to r z h
  if (blocks.empty()) return weight;
  std::vector<Value> parts;
  for (const auto& [begin, end] : blocks) parts.push_back(g.slice(weight, 0, begin * hidden, end * hidden));
  return g.concat(std::move(parts), 0);
}

}  // namespace

std::vector<Value> float64_recurrent_layer(GraphBuilder& g, const ir::Node& layer) {
  const Value x(layer.inputs[0]), weights(layer.inputs[1]), recurrences(layer.inputs[2]);
  const auto input = [&](size_t index) {
    return index < layer.inputs.size() ? Value(layer.inputs[index]) : Value();
  };
  const Value biases = input(3), counts = input(4), peepholes = input(7);
  const std::optional<Cell> cell = cell_of(layer);
  const bool is_plain = !peepholes && !layer.find("clip") &&
                        ir::attribute_or<int64_t>(layer, "layout", 0) == 0 &&
                        ir::attribute_or<int64_t>(layer, "input_forget", 0) == 0 &&
                        ir::attribute_or<std::string>(layer, "direction", "forward") != "reverse";
  if (x.element_type() != ElementType::float64 || !cell || !is_plain || !recurrences.dim(-1).is_static())
    return {};

  const Dim length = x.dim(0), batch = x.dim(1), directions = weights.dim(0);
  const int64_t hidden = recurrences.dim(-1).value(), rows = recurrences.dim(1).value();
  std::vector<lowering::Direction> each;
  for (int64_t i = 0; i < directions.value(); ++i) {
    const auto part = [&](Value all, int64_t begin, int64_t end) {
      const Value own = g.squeeze(g.slice(all, 0, i, i + 1), {0});
      return in_order_of_torch(
          g, *cell, begin == 0 && end == all.dim(1).value() ? own : g.slice(own, 0, begin, end), hidden);
    };
    lowering::Direction direction{part(weights, 0, rows), part(recurrences, 0, rows), {}, {}, {}};
    if (biases) {
      direction.b_ih = part(biases, 0, rows);
      direction.b_hh = part(biases, rows, 2 * rows);
    }
    each.push_back(std::move(direction));
  }
  std::optional<lowering::Lengths> lengths;
  if (counts) {
    const Value steps = g.unsqueeze(lowering::arithmetic(g, 0, 1, length), {1});
    lengths = {counts, g.op("Less", steps, g.unsqueeze(g.cast(counts, ElementType::int64), {0}))};
  }
  std::vector<Value> states;
  for (size_t i = 5; i < (*cell == Cell::lstm ? 7 : 6); ++i) {
    const std::vector<Dim> dims{directions, batch, Dim(hidden)};
    states.push_back(input(i) ? input(i) : lowering::filled(g, dims, 0, x.element_type()));
  }
  std::vector<Value> made = lowering::recurrent_layer_by_steps(g, *cell, x, lengths, states, each);
  if (lengths) made[0] = g.op("Where", g.unsqueeze(lengths->runs, {2}), made[0], g.scalar_like(x, 0));
  made[0] = g.reshape(made[0], {length, batch, directions, Dim(hidden)});
  made[0] = g.transpose(made[0], {0, 2, 1, 3});
  made.resize(layer.outputs.size());
  return made;
}

}  // namespace opbridge::onnxruntime
