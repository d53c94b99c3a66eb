// Histograms of points. The arguments are those of torch.histogramdd, in another order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "../common/shapes.h"

namespace opbridge::op {
namespace {

// The bins of one coordinate. Each includes its lower edge; the last one also includes its upper edge.
// PyTorch accepts unsorted edges; the bin is then arbitrary but exists.
template <class T>
class Bins {
 public:
  explicit Bins(std::span<const T> edges) : edges_(edges) {
    const auto descends = [](T a, T b) { return !(a <= b); };
    if (std::ranges::adjacent_find(edges, descends) == edges.end())
      per_unit_ = static_cast<T>(edges.size() - 1) / (edges.back() - edges.front());
  }

  // The bin of a value; -1 if it is outside or NaN.
  std::int64_t of(T value) const {
    if (!(value >= edges_.front() && value <= edges_.back())) return -1;
    // If the edges are equally spaced, as most are, this guess is right and the search is skipped.
    const T guess = (value - edges_.front()) * per_unit_;
    if (guess >= 0 && guess < static_cast<T>(edges_.size() - 1)) {
      const auto bin = static_cast<std::size_t>(guess);
      if (edges_[bin] <= value && value < edges_[bin + 1]) return static_cast<std::int64_t>(bin);
    }
    const auto bin = std::ranges::upper_bound(edges_, value) - edges_.begin() - 1;
    return std::min<std::int64_t>(bin, static_cast<std::int64_t>(edges_.size()) - 2);
  }

 private:
  std::span<const T> edges_;
  T per_unit_ = std::numeric_limits<T>::quiet_NaN();  // kept for edges that do not ascend
};

void require_points(const Shape& self) {
  require(self.size() == 2, "self must hold points, (N, D), not the shape " + to_string(self));
}

OPBRIDGE_OPERATOR(
    "opbridge::histogramdd(Tensor self, Tensor? weight, Tensor[] edges, bool density=False) -> Tensor")
    .shape([](const Shape& self, const std::optional<Shape>& weight, const std::vector<Shape>& edges, bool) {
      require_points(self);
      require(self[1] == edges.size(), "edges must hold a tensor for each coordinate");
      if (weight) {
        require(weight->size() == 1, "weight must hold a number for each point");
        require((*weight)[0] == self[0], "weight must hold a number for each point");
      }
      Shape result;
      for (const Shape& of_one : edges) {
        require(of_one.size() == 1, "edges must have one dimension each");
        require(of_one[0] >= 2, "edges must be two or more");
        result.push_back(of_one[0] - 1);
      }
      return result;
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> self, std::optional<TensorView<const T>> weight,
                     std::span<const TensorView<const T>> edges, bool density, TensorView<T> out) {
           std::vector<Bins<T>> bins;
           for (const TensorView<const T> of_one : edges) bins.emplace_back(of_one);
           const std::span<double> sums = context.scratch<double>(out.size());
           std::ranges::fill(sums, 0);
           double total = 0;
           for (std::int64_t point = 0; point < self.dim(0); ++point) {
             std::int64_t cell = 0;
             for (std::size_t i = 0; i < bins.size() && cell >= 0; ++i) {
               const std::int64_t bin = bins[i].of(self(point, i));
               cell = bin < 0 ? -1 : cell * out.dim(static_cast<int>(i)) + bin;
             }
             if (cell < 0) continue;
             const double counted = weight ? static_cast<double>((*weight)[point]) : 1;
             sums[static_cast<std::size_t>(cell)] += counted;
             total += counted;
           }
           for (std::int64_t cell = 0; cell < out.size(); ++cell) {
             double scale = 1;
             if (density) {
               scale = total;
               std::int64_t rest = cell;
               for (std::size_t i = edges.size(); i-- > 0;) {
                 const std::int64_t count = out.dim(static_cast<int>(i)), bin = rest % count;
                 scale *= static_cast<double>(edges[i][bin + 1]) - static_cast<double>(edges[i][bin]);
                 rest /= count;
               }
             }
             out[cell] = static_cast<T>(sums[static_cast<std::size_t>(cell)] / scale);
           }
         });

// From both ends, so that the ends are exact.
template <class T>
void fill_with_steps(T low, T high, TensorView<T> edges) {
  const std::int64_t bins = edges.size() - 1;
  const T step = (high - low) / static_cast<T>(bins);
  for (std::int64_t i = 0; i <= bins; ++i)
    edges[i] = 2 * i <= bins ? low + step * static_cast<T>(i) : high - step * static_cast<T>(bins - i);
}

OPBRIDGE_OPERATOR("opbridge::histogramdd_edges(Tensor self, Tensor? range, int[] bins) -> Tensor[]")
    .shape([](const Shape& self, const std::optional<Shape>& range, std::span<const std::int64_t> bins) {
      require_points(self);
      require(self[1] == bins.size(), "bins must hold a number for each coordinate");
      if (range) require_shape(*range, {self[1], 2}, "range");
      std::vector<Shape> result;
      for (const std::int64_t count : bins) {
        require(count > 0, "bins must be positive");
        result.push_back({Dim(count) + 1});
      }
      return result;
    })
    .cpu(floating_types,
         []<class T>(Context&, TensorView<const T> self, std::optional<TensorView<const T>> range,
                     std::span<const std::int64_t>, std::span<const TensorView<T>> out) {
           const std::int64_t points = self.dim(0);
           for (std::size_t i = 0; i < out.size(); ++i) {
             T low = 0, high = points == 0 ? T(1) : T(0);
             if (range) {
               low = (*range)(i, 0);
               high = (*range)(i, 1);
             } else if (points > 0) {
               low = high = self(0, i);
               for (std::int64_t point = 0; point < points; ++point) {
                 const T value = self(point, i);
                 require(std::isfinite(value), "self must be finite where no range is given");
                 low = std::min(low, value);
                 high = std::max(high, value);
               }
             }
             require(low <= high && std::isfinite(low) && std::isfinite(high),
                     "range must be finite, and not end before it begins");
             if (low == high) {
               low -= T(0.5);
               high += T(0.5);
             }
             fill_with_steps(low, high, out[i]);
           }
         });

}  // namespace
}  // namespace opbridge::op
