// Samples from the Poisson and the binomial distribution, computed from uniform random numbers.
#include <cmath>
#include <limits>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

// Adds the probabilities of 0 … `most`, from the most probable number outwards, until they exceed `uniform`,
// a number in [0, 1). Returns the number that was added last. `ratio(k)` is the probability of k + 1 divided
// by that of k. On average this takes as many steps as the standard deviation.
template <class Ratio>
double number_at(double uniform, double mode, double probability, double most, Ratio ratio) {
  double least = mode, greatest = mode, of_least = probability, of_greatest = probability;
  double left = uniform - probability;
  while (left >= 0) {
    const double above = greatest < most ? of_greatest * ratio(greatest) : 0;
    const double below = least > 0 ? of_least / ratio(least - 1) : 0;
    if (above == 0 && below == 0) break;  // rounding made the sum less than 1
    const bool up = above >= below;
    (up ? of_greatest : of_least) = up ? above : below;
    up ? ++greatest : --least;
    left -= up ? above : below;
    if (left < 0) return up ? greatest : least;
  }
  return mode;
}

double poisson(double rate, double uniform) {
  if (rate == 0) return 0;
  const double mode = std::floor(rate);
  const double probability = std::exp(mode * std::log(rate) - rate - std::lgamma(mode + 1));
  return number_at(uniform, mode, probability, std::numeric_limits<double>::infinity(),
                   [&](double k) { return rate / (k + 1); });
}

double binomial(double count, double prob, double uniform) {
  if (count <= 0 || prob <= 0) return 0;
  if (prob >= 1) return count;
  if (std::isnan(count) || std::isnan(prob)) return std::numeric_limits<double>::quiet_NaN();
  const double n = std::floor(count), mode = std::floor((n + 1) * prob), odds = prob / (1 - prob);
  const double ways = std::lgamma(n + 1) - std::lgamma(mode + 1) - std::lgamma(n - mode + 1);
  const double probability = std::exp(ways + mode * std::log(prob) + (n - mode) * std::log1p(-prob));
  return number_at(uniform, mode, probability, n, [&](double k) { return (n - k) / (k + 1) * odds; });
}

// For greater numbers, the sums take too many steps and round their first term too much.
constexpr double kMost = 1e9;

OPBRIDGE_OPERATOR("opbridge::poisson(Tensor rate, Tensor uniform) -> Tensor")
    .shape([](const Shape& rate, const Shape& uniform) {
      require_same_shape(rate, uniform, "rate and uniform");
      return rate;
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> rate,
                                     TensorView<const double> uniform, TensorView<T> out) {
      for (std::int64_t i = 0; i < rate.size(); ++i)
        require(rate[i] >= 0 && rate[i] <= kMost, "rates must be in the range from 0 to 1e9");
      context.parallel_for(out.size(), 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(poisson(rate[i], uniform[i]));
      });
    });

OPBRIDGE_OPERATOR("opbridge::binomial(Tensor count, Tensor prob, Tensor uniform) -> Tensor")
    .shape([](const Shape& count, const Shape& prob, const Shape& uniform) {
      require_same_shape(count, prob, "count and prob");
      require_same_shape(count, uniform, "count and uniform");
      return count;
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> count, TensorView<const T> prob,
                                     TensorView<const double> uniform, TensorView<T> out) {
      for (std::int64_t i = 0; i < count.size(); ++i)
        require(!(count[i] > kMost), "counts must be 1e9 at most");
      context.parallel_for(out.size(), 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          out[i] = static_cast<T>(binomial(count[i], prob[i], uniform[i]));
      });
    });

}  // namespace
}  // namespace opbridge::op
