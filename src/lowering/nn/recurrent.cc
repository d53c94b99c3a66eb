#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/nn/recurrent_layer.h"

namespace opbridge::lowering {
namespace {

struct Options {
  bool has_biases = true;
  int64_t num_layers = 1;
  double dropout = 0;
  bool train = false, bidirectional = false;
};

// Runs the layers one after another. `input` and `lengths` are as in recurrent_layer(); `states` are those of
// all layers. `params` are in PyTorch's order: for each layer and direction the weights of the input and of
// the hidden state, their biases, and the projection.
std::vector<Value> recurrent(GraphBuilder& g, Cell cell, Value input, const std::optional<Lengths>& lengths,
                             const std::vector<Value>& states, const std::vector<Value>& params,
                             const Options& o) {
  if (o.train && o.dropout != 0 && o.num_layers > 1)
    g.refuse("dropout is random; call model.eval() before the export");
  const int64_t both = o.bidirectional ? 2 : 1;
  const size_t without_projection = o.has_biases ? 4 : 2;
  if (o.num_layers < 1 || o.num_layers > static_cast<int64_t>(params.size()))
    g.refuse(fmt::format("num_layers is {}, but there are {} weights", o.num_layers, params.size()));
  const auto directions_in_all = static_cast<size_t>(o.num_layers * both);
  const size_t per_direction = params.size() / directions_in_all;
  if (params.size() % directions_in_all != 0 || per_direction < without_projection)
    g.refuse(
        fmt::format("{} weights do not fit {} directions of all layers", params.size(), directions_in_all));
  for (Value state : states) {
    if (state.dim(0) == Dim(o.num_layers * both)) continue;
    g.refuse(fmt::format("the initial state is for {} directions of all layers, but there are {}",
                         state.dim(0).str(), directions_in_all));
  }

  Value output = input;
  std::vector<std::vector<Value>> last(states.size());  // of each layer
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    std::vector<Direction> directions;
    for (int64_t i = 0; i < both; ++i) {
      const Value* own = &params[static_cast<size_t>(layer * both + i) * per_direction];
      Direction direction{own[0], own[1], {}, {}, {}};
      if (o.has_biases) direction.b_ih = own[2], direction.b_hh = own[3];
      if (per_direction > without_projection) direction.projection = own[without_projection];
      directions.push_back(direction);
    }
    std::vector<Value> before;
    for (Value state : states) {
      before.push_back(o.num_layers == 1 ? state : g.slice(state, 0, layer * both, (layer + 1) * both));
    }
    const std::vector<Value> made = recurrent_layer(g, cell, output, lengths, before, directions);
    output = made[0];
    for (size_t i = 0; i < states.size(); ++i) last[i].push_back(made[i + 1]);
  }
  std::vector<Value> results{output};
  for (const std::vector<Value>& state : last) results.push_back(g.concat(state, 0));
  return results;
}

std::vector<Value> of_batch(GraphBuilder& g, Cell cell, Value input, const std::vector<Value>& states,
                            const std::vector<Value>& params, const Options& o, bool batch_first) {
  const Dim batch = input.dim(batch_first ? 0 : 1);
  for (Value state : states) {
    if (state.dim(1) == batch) continue;
    g.refuse(fmt::format(
        "the initial state is for {} sequences, but the input has {}; give both the same batch size",
        state.dim(1).str(), batch.str()));
  }
  const auto turned = [&](Value value) { return batch_first ? g.transpose(value, {1, 0, 2}) : value; };
  std::vector<Value> results = recurrent(g, cell, turned(input), {}, states, params, o);
  results.front() = turned(results.front());
  return results;
}

// The rows of a packed sequence are sorted by step: step t has batch_sizes[t] rows, one for each sequence
// that has not ended. ONNX takes padded sequences and their lengths.
std::vector<Value> of_packed_sequence(GraphBuilder& g, Cell cell, Value data, Value batch_sizes,
                                      const std::vector<Value>& states, const std::vector<Value>& params,
                                      const Options& o) {
  const Dim length = batch_sizes.dim(0), batch = states.at(0).dim(1);
  Value sequences = g.unsqueeze(arithmetic(g, 0, 1, batch), {0});
  Value runs = g.op("Less", sequences, g.unsqueeze(batch_sizes, {1}));  // (length, batch)
  Value zero = g.scalar(0, ElementType::int64);
  Value starts = g.op("CumSum", batch_sizes, zero, attr("exclusive", 1));
  Value rows = g.op("Where", runs, g.op("Add", g.unsqueeze(starts, {1}), sequences), zero);
  const Lengths lengths{g.reduce("ReduceSum", g.cast(runs, ElementType::int32), {0}, false), runs};

  std::vector<Value> results = recurrent(g, cell, g.gather(data, rows, 0), lengths, states, params, o);
  const Dim width = results.front().dim(2);
  Value padded = g.reshape(results.front(), {length * batch, width});
  results.front() =
      g.typed(g.op("Compress", padded, flat(g, runs), attr("axis", 0)), std::vector{data.dim(0), width});
  return results;
}

// One step of one layer: returns the states after it. Each input is (batch, features).
std::vector<Value> of_step(GraphBuilder& g, Cell cell, Value input, const std::vector<Value>& states,
                           Value w_ih, Value w_hh, std::optional<Value> b_ih, std::optional<Value> b_hh) {
  std::vector<Value> before, params{w_ih, w_hh};
  for (Value state : states) before.push_back(g.unsqueeze(state, {0}));
  if (b_ih.has_value() != b_hh.has_value()) g.refuse("b_ih and b_hh must both be given, or neither");
  if (b_ih) params.insert(params.end(), {*b_ih, *b_hh});
  std::vector<Value> after =
      recurrent(g, cell, g.unsqueeze(input, {0}), {}, before, params, {.has_biases = b_ih.has_value()});
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
       return of_batch(g, Cell::lstm, input, hx, params,
                       {has_biases, num_layers, dropout, train, bidirectional}, batch_first);
     });
  on("aten::lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int "
     "num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value data, Value batch_sizes, Values hx, Values params, bool has_biases,
        int64_t num_layers, double dropout, bool train, bool bidirectional) {
       return of_packed_sequence(g, Cell::lstm, data, batch_sizes, hx, params,
                                 {has_biases, num_layers, dropout, train, bidirectional});
     });

  // oneDNN's layer, to which torch decomposes lstm on CPUs. The fourth result, if there is one, is memory for
  // the gradient.
  on("aten::mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, "
     "Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, "
     "bool has_biases, bool bidirectional, bool batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, Value w_ih, Value w_hh, Value b_ih, Value b_hh, Value hx, Value cx,
        bool reverse, std::vector<int64_t> batch_sizes, int64_t mode, int64_t hidden_size, int64_t num_layers,
        bool has_biases, bool bidirectional, bool batch_first, Ignored) {
       constexpr int64_t lstm = 2;  // in oneDNN's enumeration
       if (mode != lstm) g.refuse("PyTorch has only the mode 2, LSTM");
       if (num_layers != 1 || bidirectional || batch_first || !batch_sizes.empty())
         g.refuse("PyTorch's kernel ignores num_layers, bidirectional, batch_first and batch_sizes");
       if (hx.rank() != 3 || cx.rank() != 3 || hx.dim(2) != Dim(hidden_size))
         g.refuse("PyTorch does not check that the states have the sizes (1, batch, hidden_size)");
       Values params{w_ih, w_hh};
       if (has_biases) params.insert(params.end(), {b_ih, b_hh});
       const auto in_order = [&](Value x) { return reverse ? reversed(g, x, 0) : x; };
       Values results = of_batch(g, Cell::lstm, in_order(input), {hx, cx}, params, {has_biases}, false);
       results.front() = in_order(results.front());
       results.resize(g.result_count());
       return results;
     });
  on("aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? "
     "b_hh=None) -> (Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, Values hx, Value w_ih, Value w_hh, std::optional<Value> b_ih,
        std::optional<Value> b_hh) { return of_step(g, Cell::lstm, input, hx, w_ih, w_hh, b_ih, b_hh); });

  for (const auto& [name, cell] :
       {std::pair{"gru", Cell::gru}, {"rnn_tanh", Cell::tanh}, {"rnn_relu", Cell::relu}}) {
    on(fmt::format("aten::{}.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int "
                   "num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> "
                   "(Tensor, Tensor)",
                   name),
       Since{9},
       [cell = cell](GraphBuilder& g, Value input, Value hx, Values params, bool has_biases,
                     int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first) {
         return of_batch(g, cell, input, {hx}, params,
                         {has_biases, num_layers, dropout, train, bidirectional}, batch_first);
       });
    on(fmt::format("aten::{}.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool "
                   "has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> "
                   "(Tensor, Tensor)",
                   name),
       Since{9},
       [cell = cell](GraphBuilder& g, Value data, Value batch_sizes, Value hx, Values params, bool has_biases,
                     int64_t num_layers, double dropout, bool train, bool bidirectional) {
         return of_packed_sequence(g, cell, data, batch_sizes, {hx}, params,
                                   {has_biases, num_layers, dropout, train, bidirectional});
       });
    on(fmt::format("aten::{}_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
                   "Tensor? b_hh=None) -> Tensor",
                   name),
       Since{9},
       [cell = cell](GraphBuilder& g, Value input, Value hx, Value w_ih, Value w_hh,
                     std::optional<Value> b_ih, std::optional<Value> b_hh) {
         return of_step(g, cell, input, {hx}, w_ih, w_hh, b_ih, b_hh)[0];
       });
  }
}

}  // namespace opbridge::lowering
