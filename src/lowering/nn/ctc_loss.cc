// The CTC loss, by an operator of opbridge's own.
#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/kernel.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

// The operands of opbridge::ctc_loss. `log_probs` is (T, N, C), or (T, C) for a single sequence.
struct Ctc {
  bool single;
  std::vector<Dim> batch;
  Value log_probs, targets, input_lengths, target_lengths;

  Ctc(GraphBuilder& g, Value x, Value given_targets, Value of_inputs, Value of_targets)
      : single(x.rank() == 2), log_probs(x), targets(g.cast(given_targets, ElementType::int64)) {
    if (single) {
      log_probs = g.unsqueeze(log_probs, {1});
      targets = g.unsqueeze(targets, {0});
    }
    batch = {log_probs.dim(1)};
    input_lengths = g.reshape(g.cast(of_inputs, ElementType::int64), batch);
    target_lengths = g.reshape(g.cast(of_targets, ElementType::int64), batch);
  }

  Value losses(GraphBuilder& g, int64_t blank) const {
    return kernel(g, "opbridge::ctc_loss",
                  {log_probs, targets, input_lengths, target_lengths, attr("blank", blank)},
                  {log_probs.element_type(), batch});
  }
};

Value where_infinite(GraphBuilder& g, Value losses, double number, Value otherwise) {
  Value infinite = g.op("Equal", losses, g.scalar_like(losses, INFINITY));
  return g.op("Where", infinite, g.scalar_like(otherwise, number), otherwise);
}

Value ctc_loss(GraphBuilder& g, Value log_probs, Value targets, Value input_lengths, Value target_lengths,
               int64_t blank, int64_t reduction, bool zero_infinity) {
  const Ctc ctc(g, operand(g, log_probs, g.result().element_type), targets, input_lengths, target_lengths);
  Value losses = ctc.losses(g, blank);
  if (zero_infinity) losses = where_infinite(g, losses, 0, losses);
  if (reduction == mean_reduction) {
    Value lengths = g.cast(ctc.target_lengths, losses.element_type());
    losses = g.op("Div", losses, g.op("Max", lengths, g.scalar_like(lengths, 1)));
  }
  return reduced(g, ctc.single ? g.squeeze(losses, {0}) : losses, reduction);
}

// The losses of the sequences, infinite ones included. The second result is empty: only PyTorch's own
// gradient reads it.
std::array<Value, 2> ctc_losses(GraphBuilder& g, Value log_probs, Value targets, Value input_lengths,
                                Value target_lengths, int64_t blank, Ignored) {
  const Ctc ctc(g, log_probs, targets, input_lengths, target_lengths);
  return {ctc.losses(g, blank), Value()};
}

Value ctc_gradient(GraphBuilder& g, Value grad, Value log_probs, Value targets, Value input_lengths,
                   Value target_lengths, Value losses, Ignored, int64_t blank, bool zero_infinity) {
  const Ctc ctc(g, log_probs, targets, input_lengths, target_lengths);
  // The kernel leaves out sequences whose gradient is 0. That of an infinite loss is NaN in PyTorch.
  grad = where_infinite(g, losses, zero_infinity ? 0 : NAN, grad);
  return kernel(g, "opbridge::ctc_loss_backward",
                {grad, ctc.log_probs, ctc.targets, ctc.input_lengths, ctc.target_lengths,
                 attr("blank", blank), attr("wanted", std::vector<int64_t>{1})},
                ctc.log_probs.type());
}

}  // namespace

void register_ctc_loss(SymbolicRegistry& registry) {
  auto on = add(registry);
  on("aten::ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
     "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
     Since{9}, ctc_loss);
  on("aten::ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
     "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value log_probs, Value targets, std::vector<int64_t> input_lengths,
        std::vector<int64_t> target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
       return ctc_loss(g, log_probs, targets, g.ints(input_lengths), g.ints(target_lengths), blank, reduction,
                       zero_infinity);
     });
  on("aten::_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
     "int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
     Since{9}, ctc_losses);
  on("aten::_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
     "int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value log_probs, Value targets, std::vector<int64_t> input_lengths,
        std::vector<int64_t> target_lengths, int64_t blank, Ignored) {
       return ctc_losses(g, log_probs, targets, g.ints(input_lengths), g.ints(target_lengths), blank, {});
     });
  on("aten::_ctc_loss_backward.Tensor(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, "
     "Tensor target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool "
     "zero_infinity=False) -> Tensor",
     Since{9}, ctc_gradient);
  on("aten::_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, "
     "int[] target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool "
     "zero_infinity=False) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value grad, Value log_probs, Value targets, std::vector<int64_t> input_lengths,
        std::vector<int64_t> target_lengths, Value losses, Ignored, int64_t blank, bool zero_infinity) {
       return ctc_gradient(g, grad, log_probs, targets, g.ints(input_lengths), g.ints(target_lengths), losses,
                           {}, blank, zero_infinity);
     });
}

}  // namespace opbridge::lowering
