#include "lowering/image/resize_axis.h"

#include <numbers>

namespace opbridge::lowering {
namespace {

using Mode = Interpolation::Mode;

// Rounds to the type of ATen's coordinates. A sum with a float32 product is rounded once, as by the fused
// multiply-add that ATen compiles to.
Term rounded(const Interpolation& how, const Term& x) { return how.in_float64 ? x : to_float32(x); }

// The distance in the input of two neighbouring pixels of the result.
Term step_of(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, bool small) {
  const auto& [from, to, scale] = axis;
  if (how.align_corners) return choose(g, less(1, to), (from - 1) / max(to - 1, 1), 0);
  if (!scale) return from / to;
  Term step = 1 / *scale;
  if (small && how.mode == Mode::nearest) step = choose(g, equal(to, from * 2), 0.5, step);
  if (how.copies_equal || (small && how.mode == Mode::nearest)) step = choose(g, equal(from, to), 1, step);
  return step;
}

// Cubic convolution (Keys 1981) with parameter a, for |x| <= 1 and for 1 < |x| < 2.
Term cubic_near(double a, const Term& x) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
Term cubic_far(double a, const Term& x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

// The radius of the antialiasing filter at a scale of 1.
double reach_of(Mode mode) { return mode == Mode::lanczos ? 3 : mode == Mode::cubic ? 2 : 1; }

constexpr double opencv = -0.75, pillow = -0.5;

Term sinc(GraphBuilder& g, const Term& x) {
  const Term turn = x * std::numbers::pi;
  return choose(g, equal(x, 0), 1, sin(turn) / choose(g, equal(x, 0), 1, turn));
}

Term filtered(GraphBuilder& g, Mode mode, const Term& x) {
  if (mode == Mode::linear) return max(1 - x, 0);
  if (mode == Mode::lanczos) return choose(g, less(x, 3), sinc(g, x) * sinc(g, x / 3), 0);
  const Term outer = choose(g, less(x, 2), cubic_far(pillow, x), 0);
  return choose(g, less(x, 1), cubic_near(pillow, x), outer);
}

}  // namespace

Term nearest_index(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, bool small,
                   const Term& pixel) {
  Interpolation kernel = how;
  if (small) kernel.in_float64 = false;
  const Term step = rounded(kernel, step_of(g, kernel, axis, small));
  Term source = pixel * step;
  if (how.mode == Mode::nearest_exact && small) {
    source = (pixel + 0.5) * step;
  } else if (how.mode == Mode::nearest_exact) {
    source = max(rounded(kernel, (pixel + 0.5) * step - 0.5), 0) + 0.5;
  }
  return min(floor(to_float32(source)), axis.from - 1);
}

std::vector<Tap> taps(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, const Term& pixel) {
  const Term step = step_of(g, how, axis, false), last = axis.from - 1;
  const bool cubic = how.mode == Mode::cubic;
  Term source = how.align_corners ? pixel * step : (pixel + 0.5) * step - 0.5;
  if (!cubic) source = max(source, 0);
  const Term base = min(floor(source), last), t = min(max(source - base, 0), 1);
  if (!cubic) return {{base, 1 - t}, {min(base + 1, last), t}};
  const auto at = [&](double offset) { return min(max(base + offset, 0), last); };
  return {{at(-1), cubic_far(opencv, t + 1)},
          {at(0), cubic_near(opencv, t)},
          {at(1), cubic_near(opencv, 1 - t)},
          {at(2), cubic_far(opencv, 2 - t)}};
}

Antialiasing antialiasing(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, const Term& to,
                          const Term& from) {
  const auto round = [&](const Term& x) { return rounded(how, x); };
  const Term step = round(step_of(g, how, axis, false)), spread = max(step, 1);
  const Term support = round(reach_of(how.mode) * spread), most = 1 - floor(0 - support) * 2;
  const Term center = round((to + 0.5) * step);
  const Term first = max(floor(round(center - support) + 0.5), 0);
  const Term end = min(min(floor(round(center + support) + 0.5), axis.from), first + most);
  const Term x = abs(round((round(from - center) + 0.5) * round(1 / spread)));
  return {first, end, filtered(g, how.mode, x)};
}

}  // namespace opbridge::lowering
