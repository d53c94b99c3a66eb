#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/indexing.h"

namespace opbridge::lowering {
namespace {

// One of ONNX's recurrent operators, and how PyTorch's gates come into its order: blocks [begin, end) of the
// hidden size.
struct Cell {
  std::string op;
  std::vector<std::pair<int64_t, int64_t>> gates;
  size_t states;  // hidden, and cell for LSTM
  std::string activation;
};

const Cell lstm_cell{"LSTM", {{0, 1}, {3, 4}, {1, 3}}, 2, {}};  // i f g o → i o f c
const Cell gru_cell{"GRU", {{1, 2}, {0, 1}, {2, 3}}, 1, {}};    // r z n → z r h

struct Options {
  bool has_biases = true;
  int64_t num_layers = 1;
  double dropout = 0;
  bool train = false, bidirectional = false;
};

Value reorder_gates(GraphBuilder& g, Value weight, const Cell& cell, int64_t hidden) {
  if (cell.gates.empty()) return weight;
  std::vector<Value> blocks;
  for (const auto& [begin, end] : cell.gates)
    blocks.push_back(g.slice(weight, 0, begin * hidden, end * hidden));
  return g.concat(std::move(blocks), 0);
}

// (input, states) → (output, states), the layers one after another. The input is (length, batch, features);
// `lengths`, where there are any: how long each sequence is.
std::vector<Value> recurrent(GraphBuilder& g, const Cell& cell, Value input, Value lengths,
                             const std::vector<Value>& states, const std::vector<Value>& params,
                             const Options& o) {
  if (o.train && o.dropout != 0 && o.num_layers > 1)
    g.refuse("dropout is random; call model.eval() before the export");
  const int64_t directions = o.bidirectional ? 2 : 1;
  const size_t per_direction = o.has_biases ? 4 : 2;
  if (params.size() != static_cast<size_t>(o.num_layers * directions) * per_direction) {
    g.refuse("projections (proj_size) have no equivalent in ONNX's " + cell.op);
  }
  const Dim& hidden_dim = params[1].dim(-1);
  if (!hidden_dim.is_static()) g.refuse("the hidden size must be a constant");
  const int64_t hidden = hidden_dim.value();
  const ElementType type = input.element_type();

  Value layer_input = input;
  const Dim length = layer_input.dim(0), batch = layer_input.dim(1);
  std::vector<std::vector<Value>> last(cell.states);  // of each layer
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    std::vector<Value> w, r, b;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const Value* own = &params[static_cast<size_t>(layer * directions + direction) * per_direction];
      w.push_back(g.unsqueeze(reorder_gates(g, own[0], cell, hidden), {0}));
      r.push_back(g.unsqueeze(reorder_gates(g, own[1], cell, hidden), {0}));
      if (o.has_biases) {
        b.push_back(g.unsqueeze(
            g.concat({reorder_gates(g, own[2], cell, hidden), reorder_gates(g, own[3], cell, hidden)}, 0),
            {0}));
      }
    }
    std::vector<Operand> operands{layer_input, g.concat(w, 0), g.concat(r, 0),
                                  b.empty() ? Value() : g.concat(b, 0), lengths};
    for (Value state : states) {
      operands.push_back(o.num_layers == 1 ? state
                                           : g.slice(state, 0, layer * directions, (layer + 1) * directions));
    }
    operands.push_back(attr("hidden_size", hidden));
    if (o.bidirectional) operands.push_back(attr("direction", "bidirectional"));
    if (cell.op == "GRU") operands.push_back(attr("linear_before_reset", 1));
    if (!cell.activation.empty())
      operands.push_back(attr("activations", std::vector<std::string>(directions, cell.activation)));

    const std::vector<Value> made = g.op_list(cell.op, 1 + cell.states, std::move(operands));
    made[0].get()->type = ir::TensorType{type, std::vector<Dim>{length, Dim(directions), batch, hidden_dim}};
    if (o.bidirectional) {
      layer_input = g.reshape(g.transpose(made[0], {0, 2, 1, 3}), {length, batch, Dim(2 * hidden)});
    } else {
      layer_input = g.squeeze(made[0], {1});
    }
    for (size_t i = 0; i < cell.states; ++i) {
      made[i + 1].get()->type = ir::TensorType{type, std::vector<Dim>{Dim(directions), batch, hidden_dim}};
      last[i].push_back(made[i + 1]);
    }
  }
  std::vector<Value> results{layer_input};
  for (const std::vector<Value>& state : last) results.push_back(g.concat(state, 0));
  return results;
}

std::vector<Value> of_batch(GraphBuilder& g, const Cell& cell, Value input, const std::vector<Value>& states,
                            const std::vector<Value>& params, const Options& o, bool batch_first) {
  const auto turned = [&](Value value) { return batch_first ? g.transpose(value, {1, 0, 2}) : value; };
  std::vector<Value> results = recurrent(g, cell, turned(input), Value(), states, params, o);
  results.front() = turned(results.front());
  return results;
}

// The rows of a packed sequence are those of its first step, of its second, …; of step t there are
// batch_sizes[t], of the sequences that are not over. ONNX takes them padded, and how long each is.
std::vector<Value> of_packed_sequence(GraphBuilder& g, const Cell& cell, Value data, Value batch_sizes,
                                      const std::vector<Value>& states, const std::vector<Value>& params,
                                      const Options& o) {
  const Dim length = batch_sizes.dim(0), batch = states.at(0).dim(1);
  Value sequences = g.unsqueeze(arithmetic(g, 0, 1, batch), {0});
  Value runs = g.op("Less", sequences, g.unsqueeze(batch_sizes, {1}));  // (length, batch)
  Value zero = g.scalar(0, ElementType::int64);
  Value starts = g.op("CumSum", batch_sizes, zero, attr("exclusive", 1));
  Value rows = g.op("Where", runs, g.op("Add", g.unsqueeze(starts, {1}), sequences), zero);
  Value lengths = g.reduce("ReduceSum", g.cast(runs, ElementType::int32), {0}, false);

  std::vector<Value> results = recurrent(g, cell, g.gather(data, rows, 0), lengths, states, params, o);
  const Dim width = results.front().dim(2);
  Value padded = g.reshape(results.front(), {length * batch, width});
  results.front() = g.op("Compress", padded, flat(g, runs), attr("axis", 0));
  results.front().get()->type = ir::TensorType{data.element_type(), std::vector<Dim>{data.dim(0), width}};
  return results;
}

// One step, of one layer: the states after it. Each input is (batch, features).
std::vector<Value> of_step(GraphBuilder& g, const Cell& cell, Value input, const std::vector<Value>& states,
                           Value w_ih, Value w_hh, std::optional<Value> b_ih, std::optional<Value> b_hh) {
  std::vector<Value> before, params{w_ih, w_hh};
  for (Value state : states) before.push_back(g.unsqueeze(state, {0}));
  if (b_ih.has_value() != b_hh.has_value()) g.refuse("there is one bias of the two");
  if (b_ih) params.insert(params.end(), {*b_ih, *b_hh});
  std::vector<Value> after =
      recurrent(g, cell, g.unsqueeze(input, {0}), Value(), before, params, {.has_biases = b_ih.has_value()});
  after.erase(after.begin());
  for (Value& state : after) state = g.squeeze(state, {0});
  return after;
}

}  // namespace

void register_recurrent(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Values = std::vector<Value>;

  on("aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float "
     "dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, Values hx, Values params, bool has_biases, int64_t num_layers,
        double dropout, bool train, bool bidirectional, bool batch_first) {
       return of_batch(g, lstm_cell, input, hx, params,
                       {has_biases, num_layers, dropout, train, bidirectional}, batch_first);
     });
  on("aten::lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int "
     "num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)",
     Since{11},
     [](GraphBuilder& g, Value data, Value batch_sizes, Values hx, Values params, bool has_biases,
        int64_t num_layers, double dropout, bool train, bool bidirectional) {
       return of_packed_sequence(g, lstm_cell, data, batch_sizes, hx, params,
                                 {has_biases, num_layers, dropout, train, bidirectional});
     });

  on("aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? "
     "b_hh=None) -> (Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, Values hx, Value w_ih, Value w_hh, std::optional<Value> b_ih,
        std::optional<Value> b_hh) { return of_step(g, lstm_cell, input, hx, w_ih, w_hh, b_ih, b_hh); });

  const Cell cells[] = {gru_cell, {"RNN", {}, 1, "Tanh"}, {"RNN", {}, 1, "Relu"}};
  const char* names[] = {"gru", "rnn_tanh", "rnn_relu"};
  for (size_t i = 0; i < 3; ++i) {
    on(fmt::format("aten::{}.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int "
                   "num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> "
                   "(Tensor, Tensor)",
                   names[i]),
       Since{9},
       [cell = cells[i]](GraphBuilder& g, Value input, Value hx, Values params, bool has_biases,
                         int64_t num_layers, double dropout, bool train, bool bidirectional,
                         bool batch_first) {
         return of_batch(g, cell, input, {hx}, params,
                         {has_biases, num_layers, dropout, train, bidirectional}, batch_first);
       });
    on(fmt::format("aten::{}.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool "
                   "has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> "
                   "(Tensor, Tensor)",
                   names[i]),
       Since{11},
       [cell = cells[i]](GraphBuilder& g, Value data, Value batch_sizes, Value hx, Values params,
                         bool has_biases, int64_t num_layers, double dropout, bool train,
                         bool bidirectional) {
         return of_packed_sequence(g, cell, data, batch_sizes, {hx}, params,
                                   {has_biases, num_layers, dropout, train, bidirectional});
       });
    on(fmt::format("aten::{}_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
                   "Tensor? b_hh=None) -> Tensor",
                   names[i]),
       Since{9},
       [cell = cells[i]](GraphBuilder& g, Value input, Value hx, Value w_ih, Value w_hh,
                         std::optional<Value> b_ih, std::optional<Value> b_hh) {
         return of_step(g, cell, input, {hx}, w_ih, w_hh, b_ih, b_hh)[0];
       });
  }
}

}  // namespace opbridge::lowering
