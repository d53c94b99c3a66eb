// Connectionist temporal classification: the probability of a labelling, summed over its alignments (Graves
// et al., "Connectionist Temporal Classification", 2006, section 4.1).
#include <algorithm>
#include <cmath>
#include <limits>
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

// The loss of one sequence. `log_probs` has `classes` log-probabilities for each of `steps` time steps,
// `stride` elements apart. With blanks between its n labels, a labelling has 2 n + 1 states; alpha is the
// log-probability of being in each.
template <class T>
T negative_log_likelihood(const T* log_probs, std::int64_t stride, std::int64_t steps,
                          std::span<const std::int64_t> labels, std::int64_t blank, std::span<T> alpha) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  const auto label = [&](std::size_t state) { return state % 2 == 0 ? blank : labels[state / 2]; };
  if (steps == 0) return labels.empty() ? T(0) : -kNever;
  std::ranges::fill(alpha, kNever);
  for (std::size_t state = 0; state < std::min<std::size_t>(2, alpha.size()); ++state)
    alpha[state] = log_probs[label(state)];
  for (std::int64_t step = 1; step < steps; ++step) {
    const T* const now = log_probs + step * stride;
    for (std::size_t state = alpha.size(); state-- > 0;) {
      T before = alpha[state];
      if (state >= 1) before = log_add(before, alpha[state - 1]);
      const bool may_skip = state % 2 == 1 && state >= 3 && label(state) != label(state - 2);
      if (may_skip) before = log_add(before, alpha[state - 2]);
      alpha[state] = before + now[label(state)];
    }
  }
  const T last = alpha.back();
  return -(alpha.size() == 1 ? last : log_add(last, alpha[alpha.size() - 2]));
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
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> log_probs,
                                     TensorView<const std::int64_t> targets,
                                     TensorView<const std::int64_t> input_lengths,
                                     TensorView<const std::int64_t> target_lengths, std::int64_t blank,
                                     TensorView<T> out) {
      const std::int64_t times = log_probs.dim(0), batch = out.size(), classes = log_probs.dim(2);
      require(blank >= 0 && blank < classes, "blank must be one of the classes");
      const bool padded = targets.rank() == 2;
      const std::int64_t room = padded ? targets.dim(1) : targets.size();
      const std::span<std::int64_t> begins = context.scratch<std::int64_t>(batch);
      std::int64_t used = 0, longest = 0;
      for (std::int64_t i = 0; i < batch; ++i) {
        require(input_lengths[i] >= 0 && input_lengths[i] <= times,
                [&] { return "input_lengths must be from 0 to " + std::to_string(times); });
        require(target_lengths[i] >= 0 && target_lengths[i] <= room - (padded ? 0 : used),
                "target_lengths must be from 0 to what targets hold");
        begins[static_cast<std::size_t>(i)] = padded ? i * room : used;
        used += target_lengths[i];
        longest = std::max(longest, target_lengths[i]);
      }
      context.parallel_for(batch, 1, [&](std::int64_t begin, std::int64_t end) {
        const std::span<T> alpha = context.scratch<T>(2 * longest + 1);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::span labels(targets.data() + begins[static_cast<std::size_t>(i)],
                                 static_cast<std::size_t>(target_lengths[i]));
          for (const std::int64_t label : labels)
            require(label >= 0 && label < classes, "targets must be from 0 to the number of classes - 1");
          out[i] = negative_log_likelihood(log_probs.data() + i * classes, batch * classes, input_lengths[i],
                                           labels, blank, alpha.first(2 * labels.size() + 1));
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
