// One layer of a recurrent network, in one direction or both.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lowering/common.h"

namespace opbridge::lowering {

enum class Cell : uint8_t { lstm, gru, tanh, relu };

// The weights of one direction, with the gates in PyTorch's order.
struct Direction {
  Value w_ih, w_hh;
  std::optional<Value> b_ih, b_hh;
  std::optional<Value> projection;  // of the hidden state
};

// The lengths of sequences in a padded batch.
struct Lengths {
  Value counts;  // int32 (batch): the length of each
  Value runs;    // bool (length, batch): true until a sequence ends
};

// `input` is (length, batch, features). `states` are (directions, batch, size): the hidden state, and for
// LSTM the cell state. Returns the output (length, batch, directions * size), which is undefined after the
// end of a sequence, and the final states.
std::vector<Value> recurrent_layer(GraphBuilder& g, Cell cell, Value input,
                                   const std::optional<Lengths>& lengths, const std::vector<Value>& states,
                                   std::span<const Direction> directions);

// The same as a loop over the steps, with projections, and for types that a runtime's kernels do not take.
std::vector<Value> recurrent_layer_by_steps(GraphBuilder& g, Cell cell, Value input,
                                            const std::optional<Lengths>& lengths,
                                            const std::vector<Value>& states,
                                            std::span<const Direction> directions);

}  // namespace opbridge::lowering
