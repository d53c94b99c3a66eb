// One layer of a recurrent network, in one direction or in both.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lowering/common.h"

namespace opbridge::lowering {

enum class Cell : uint8_t { lstm, gru, tanh, relu };

// The weights of one direction, their gates in PyTorch's order.
struct Direction {
  Value w_ih, w_hh;
  std::optional<Value> b_ih, b_hh;
  std::optional<Value> projection;  // of the hidden state
};

// Of sequences that are not equally long.
struct Lengths {
  Value counts;  // int32 (batch): how long each is
  Value runs;    // bool (length, batch): whether a sequence is not over
};

// `input` is (length, batch, features); `states` are (directions, batch, size) each: the hidden state, and
// that of the cells for LSTM. Returns the output (length, batch, directions * size), undefined where a
// sequence is over, and the states after it.
std::vector<Value> recurrent_layer(GraphBuilder& g, Cell cell, Value input,
                                   const std::optional<Lengths>& lengths, const std::vector<Value>& states,
                                   std::span<const Direction> directions);

}  // namespace opbridge::lowering
