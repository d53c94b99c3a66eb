// Connectionist temporal classification: the probability of a labelling, summed over its alignments (Graves
// et al., "Connectionist Temporal Classification", 2006, section 4.1).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "../common/shapes.h"

namespace opbridge::op {
namespace {

template <class T>
T log_add(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;  // min and max would drop NaN
  const T most = std::max(a, b);
  if (most == -std::numeric_limits<T>::infinity()) return most;
  return most + std::log1p(std::exp(std::min(a, b) - most));
}

template <class T>
inline constexpr T kNever = -std::numeric_limits<T>::infinity();

// One sequence of a batch: `steps` time steps, `stride` elements apart in the log-probabilities, and its
// labels. With blanks between its n labels, a labelling has 2 n + 1 states.
struct Sequence {
  std::int64_t steps, stride;
  std::span<const std::int64_t> labels;
  std::int64_t blank;

  std::size_t states() const { return 2 * labels.size() + 1; }
  std::int64_t label(std::size_t state) const { return state % 2 == 0 ? blank : labels[state / 2]; }
  // Whether a labelling may go from two states before to this one.
  bool may_skip(std::size_t state) const {
    return state % 2 == 1 && state >= 3 && label(state) != label(state - 2);
  }
};

template <class T>
void first_step(const Sequence& sequence, const T* log_probs, T* alpha) {
  std::fill_n(alpha, sequence.states(), kNever<T>);
  for (std::size_t state = 0; state < std::min<std::size_t>(2, sequence.states()); ++state)
    alpha[state] = log_probs[sequence.label(state)];
}

// `alpha` is the log-probability of each state, `before` that of the previous step. They may be the same
// memory.
template <class T>
void next_step(const Sequence& sequence, const T* log_probs, const T* before, T* alpha) {
  for (std::size_t state = sequence.states(); state-- > 0;) {
    T sum = before[state];
    if (state >= 1) sum = log_add(sum, before[state - 1]);
    if (sequence.may_skip(state)) sum = log_add(sum, before[state - 2]);
    alpha[state] = sum + log_probs[sequence.label(state)];
  }
}

template <class T>
T loss_of_last_step(const Sequence& sequence, const T* alpha) {
  const std::size_t states = sequence.states();
  return -(states == 1 ? alpha[0] : log_add(alpha[states - 1], alpha[states - 2]));
}

template <class T>
T negative_log_likelihood(const Sequence& sequence, const T* log_probs, T* alpha) {
  if (sequence.steps == 0) return sequence.labels.empty() ? T(0) : -kNever<T>;
  first_step(sequence, log_probs, alpha);
  for (std::int64_t step = 1; step < sequence.steps; ++step)
    next_step(sequence, log_probs + step * sequence.stride, alpha, alpha);
  return loss_of_last_step(sequence, alpha);
}

// Assumes normalized log-probabilities, as PyTorch does: the result is then also the gradient of the logits.
// `room` has (steps + 1) * states + classes elements. beta is the log-probability of the remaining labels
// from each state on, including the state's own.
template <class T>
void gradient(const Sequence& sequence, const T* log_probs, std::int64_t classes, T factor, T* room, T* out) {
  const std::size_t states = sequence.states();
  T* const beta = room + static_cast<std::size_t>(sequence.steps) * states;
  T* const sums = beta + states;
  const auto alpha = [&](std::int64_t step) { return room + static_cast<std::size_t>(step) * states; };
  const auto at = [&](std::int64_t step) { return log_probs + step * sequence.stride; };
  first_step(sequence, at(0), alpha(0));
  for (std::int64_t step = 1; step < sequence.steps; ++step)
    next_step(sequence, at(step), alpha(step - 1), alpha(step));
  const T loss = loss_of_last_step(sequence, alpha(sequence.steps - 1));
  for (std::int64_t step = sequence.steps; step-- > 0;) {
    const T* const now = at(step);
    for (std::size_t state = 0; state < states; ++state) {
      T sum = kNever<T>;
      if (step + 1 == sequence.steps) {
        if (state + 2 >= states) sum = T(0);
      } else {
        sum = beta[state];
        if (state + 1 < states) sum = log_add(sum, beta[state + 1]);
        if (state + 2 < states && sequence.may_skip(state + 2)) sum = log_add(sum, beta[state + 2]);
      }
      beta[state] = sum + now[sequence.label(state)];
    }
    std::fill_n(sums, classes, kNever<T>);
    for (std::size_t state = 0; state < states; ++state) {
      T& sum = sums[sequence.label(state)];
      sum = log_add(sum, alpha(step)[state] + beta[state]);
    }
    T* const to = out + step * sequence.stride;
    for (std::int64_t c = 0; c < classes; ++c)
      to[c] = (std::exp(now[c]) - std::exp(sums[c] + loss - now[c])) * factor;
  }
}

// Calls run(i, sequence, room) for each sequence of the batch; room has as many elements as `room_of` returns
// for the most labels of a sequence.
template <class T, class RoomOf, class Run>
void for_each_sequence(Context& context, TensorView<const T> log_probs,
                       TensorView<const std::int64_t> targets, TensorView<const std::int64_t> input_lengths,
                       TensorView<const std::int64_t> target_lengths, std::int64_t blank,
                       const RoomOf& room_of, const Run& run) {
  const std::int64_t times = log_probs.dim(0), batch = log_probs.dim(1), classes = log_probs.dim(2);
  require(blank >= 0 && blank < classes, "blank must be one of the classes");
  const bool padded = targets.rank() == 2;
  const std::int64_t most = padded ? targets.dim(1) : targets.size();
  const std::span<std::int64_t> begins = context.scratch<std::int64_t>(batch);
  std::int64_t used = 0, longest = 0;
  for (std::int64_t i = 0; i < batch; ++i) {
    require(input_lengths[i] >= 0 && input_lengths[i] <= times,
            [&] { return "input_lengths must be from 0 to " + std::to_string(times); });
    require(target_lengths[i] >= 0 && target_lengths[i] <= most - (padded ? 0 : used),
            "target_lengths must be from 0 to the number of labels in targets");
    begins[static_cast<std::size_t>(i)] = padded ? i * most : used;
    used += target_lengths[i];
    longest = std::max(longest, target_lengths[i]);
  }
  context.parallel_for(batch, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::span<T> room = context.scratch<T>(room_of(longest));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::span labels(targets.data() + begins[static_cast<std::size_t>(i)],
                             static_cast<std::size_t>(target_lengths[i]));
      for (const std::int64_t label : labels)
        require(label >= 0 && label < classes, "targets must be from 0 to the number of classes - 1");
      run(i, Sequence{input_lengths[i], batch * classes, labels, blank}, room.data());
    }
  });
}

OPBRIDGE_OPERATOR(
    "opbridge::ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank=0) -> Tensor")
    .shape([](const Shape& log_probs, const Shape& targets, const Shape& input_lengths,
              const Shape& target_lengths, std::int64_t) {
      require_rank(log_probs, 3, "log_probs");
      require(targets.size() == 1 || targets.size() == 2, "targets must have one or two dimensions");
      if (targets.size() == 2)
        require(targets[0] == log_probs[1], "targets must have a row for each sequence");
      require_shape(input_lengths, {log_probs[1]}, "input_lengths");
      require_shape(target_lengths, {log_probs[1]}, "target_lengths");
      return Shape{log_probs[1]};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> log_probs, TensorView<const std::int64_t> targets,
                     TensorView<const std::int64_t> input_lengths,
                     TensorView<const std::int64_t> target_lengths, std::int64_t blank, TensorView<T> out) {
           const std::int64_t classes = log_probs.dim(2);
           for_each_sequence(
               context, log_probs, targets, input_lengths, target_lengths, blank,
               [](std::int64_t labels) { return 2 * labels + 1; },
               [&](std::int64_t i, const Sequence& sequence, T* alpha) {
                 out[i] = negative_log_likelihood(sequence, log_probs.data() + i * classes, alpha);
               });
         })
    .backward(floating_types, []<class T>(Context& context, TensorView<const T> grad,
                                          TensorView<const T> log_probs,
                                          TensorView<const std::int64_t> targets,
                                          TensorView<const std::int64_t> input_lengths,
                                          TensorView<const std::int64_t> target_lengths, std::int64_t blank,
                                          std::optional<TensorView<T>> grad_log_probs, NoGradient, NoGradient,
                                          NoGradient) {
      if (!grad_log_probs) return;
      const std::int64_t times = log_probs.dim(0), classes = log_probs.dim(2);
      std::fill(grad_log_probs->begin(), grad_log_probs->end(), T(0));
      for_each_sequence(
          context, log_probs, targets, input_lengths, target_lengths, blank,
          [&](std::int64_t labels) { return ((Dim(times) + 1) * (Dim(labels) * 2 + 1) + classes).number(); },
          [&](std::int64_t i, const Sequence& sequence, T* room) {
            // The gradient is 0 for an infinite loss that is ignored, too.
            if (sequence.steps == 0 || grad[i] == T(0)) return;
            gradient(sequence, log_probs.data() + i * classes, classes, grad[i], room,
                     grad_log_probs->data() + i * classes);
          });
    });

}  // namespace
}  // namespace opbridge::op
