#include "lowering/image/resize_weights.h"

#include <algorithm>
#include <cmath>

namespace opbridge::lowering {
namespace {

using Mode = Interpolation::Mode;

// ATen resizes uint8 in fixed point: weights are int16 multiples of 1 / one, where `one` is the greatest
// power of two for which the greatest weight fits (_compute_index_ranges_int16_weights).
bool fits_fixed_point(double greatest, int bits) {
  return std::floor(0.5 + std::ldexp(greatest, bits)) < 1 << 15;
}

Term to_fixed_point(GraphBuilder& g, const Term& weight, const Term& one) {
  const Term scaled = weight * one;
  return choose(g, less(scaled, 0), 0 - floor(0.5 - scaled), floor(scaled + 0.5));
}

Term fixed_point_one(GraphBuilder& g, const Term& weights) {
  constexpr int most_bits = 22;
  std::vector<double> powers;
  for (int bits = 1; bits <= most_bits; ++bits) powers.push_back(std::ldexp(1, bits));
  const Term power(g, g.constant(ir::Weight::of<double>(powers, {most_bits})));
  const Term greatest(g, g.reduce("ReduceMax", weights.value(g), {}, false));
  const Term fitting = choose(g, less(floor(greatest * power + 0.5), 1 << 15), power, 1);
  return {g, g.reduce("ReduceMax", fitting.value(g), {}, false)};
}

Shares static_shares(GraphBuilder& g, const Image& image, const Axis& axis, bool fixed_point) {
  const AxisSizes sizes = sizes_of(g, axis);
  const int64_t from = axis.from.value(), to = axis.to.value();
  check_constant(g, from);
  check_constant(g, from * to);
  std::vector<double> matrix(static_cast<size_t>(from * to));
  for (int64_t i = 0; i < to && from > 0; ++i) {
    double* row = matrix.data() + i * from;
    const auto pixel = static_cast<double>(i);
    if (!image.how.antialias) {
      for (const Tap& tap : taps(g, image.how, sizes, pixel))
        row[static_cast<int64_t>(tap.index.number())] += tap.weight.number();
      continue;
    }
    const Antialiasing window = antialiasing(g, image.how, sizes, pixel, 0);
    const auto end = static_cast<int64_t>(window.end.number());
    double total = 0;
    for (auto j = static_cast<int64_t>(window.first.number()); j < end; ++j) {
      row[j] = antialiasing(g, image.how, sizes, pixel, static_cast<double>(j)).weight.number();
      total += row[j];
    }
    for (int64_t j = 0; j < from && total != 0; ++j) row[j] /= total;
  }
  double one = 1;
  if (fixed_point && !matrix.empty()) {
    const double greatest = std::ranges::max(matrix);
    int bits = 0;
    while (bits < 22 && fits_fixed_point(greatest, bits + 1)) ++bits;
    one = std::ldexp(1, bits);
    for (double& weight : matrix) weight = to_fixed_point(g, weight, one).number();
  }
  return {g.constant(ir::Weight::of<double>(matrix, {to, from})), one};
}

Shares computed_shares(GraphBuilder& g, const Image& image, const Axis& axis, bool fixed_point) {
  const AxisSizes sizes = sizes_of(g, axis);
  const auto moved = [&](const Term& indices, int64_t to) {
    return Term(g, g.unsqueeze(indices.value(g), {to}));
  };
  const Term rows = moved(Term::range(g, sizes.to, axis.to), 1);
  const Term columns = moved(Term::range(g, sizes.from, axis.from), 0);
  Term weights = 0;
  if (image.how.antialias) {
    const Antialiasing window = antialiasing(g, image.how, sizes, rows, columns);
    weights = choose(g, less(columns, window.end), window.weight, 0);
    weights = choose(g, less(columns, window.first), 0, weights);
    const Term total(g, g.reduce("ReduceSum", weights.value(g), {1}, true));
    weights = weights / choose(g, equal(total, 0), 1, total);
  } else {
    for (const Tap& tap : taps(g, image.how, sizes, rows))
      weights = weights + choose(g, equal(columns, tap.index), tap.weight, 0);
  }
  if (!fixed_point) return {weights.value(g)};
  const Term one = fixed_point_one(g, weights);
  return {to_fixed_point(g, weights, one).value(g), one};
}

}  // namespace

AxisSizes sizes_of(GraphBuilder& g, const Axis& axis) {
  const Term from = Term::size(g, axis.from);
  const bool by_factor = axis.factor && !axis.to.is_static();
  return {from, by_factor ? floor(from * *axis.factor) : Term::size(g, axis.to), axis.scale};
}

std::vector<bool> Image::is_small() const {
  if (axes.size() != 2) return {false};
  if (!axes[0].to.is_static() || !axes[1].to.is_static()) return {true, false};
  return {axes[0].to.value() + axes[1].to.value() <= 128};
}

Value nearest_indices(GraphBuilder& g, const Image& image, const Axis& axis) {
  const AxisSizes sizes = sizes_of(g, axis);
  const std::vector<bool> small = image.is_small();
  const auto index_of = [&](const Term& to) {
    const auto by = [&](bool is_small) { return nearest_index(g, image.how, sizes, is_small, to); };
    if (small.size() == 1) return by(small.front());
    // Without a scale, both kernels round alike.
    if (image.how.mode == Mode::nearest && !axis.scale && !image.how.in_float64) return by(false);
    const Term height = sizes_of(g, image.axes[0]).to, width = sizes_of(g, image.axes[1]).to;
    return choose(g, less(height + width, 129), by(true), by(false));
  };
  if (axis.is_static() && small.size() == 1) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < axis.to.value(); ++i)
      indices.push_back(static_cast<int64_t>(index_of(static_cast<double>(i)).number()));
    return g.ints(indices);
  }
  return g.cast(index_of(Term::range(g, sizes.to, axis.to)).value(g), ElementType::int64);
}

std::vector<Taps> taps_along(GraphBuilder& g, const Image& image, const Axis& axis) {
  const AxisSizes sizes = sizes_of(g, axis);
  std::vector<Taps> result;
  if (!axis.is_static()) {
    for (const Tap& tap : taps(g, image.how, sizes, Term::range(g, sizes.to, axis.to)))
      result.push_back({g.cast(tap.index.value(g), ElementType::int64), tap.weight.value(g)});
    return result;
  }
  const int64_t count = axis.to.value();
  std::vector<std::vector<int64_t>> indices;
  std::vector<std::vector<double>> weights;
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<Tap> made = taps(g, image.how, sizes, static_cast<double>(i));
    indices.resize(made.size());
    weights.resize(made.size());
    for (size_t k = 0; k < made.size(); ++k) {
      indices[k].push_back(static_cast<int64_t>(made[k].index.number()));
      weights[k].push_back(made[k].weight.number());
    }
  }
  for (size_t k = 0; k < indices.size(); ++k)
    result.push_back({g.ints(indices[k]), g.constant(ir::Weight::of<double>(weights[k], {count}))});
  return result;
}

Shares shares_along(GraphBuilder& g, const Image& image, const Axis& axis, bool fixed_point) {
  return axis.is_static() ? static_shares(g, image, axis, fixed_point)
                          : computed_shares(g, image, axis, fixed_point);
}

}  // namespace opbridge::lowering
