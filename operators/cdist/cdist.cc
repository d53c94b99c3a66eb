// Distances between rows. The arguments are those of torch.cdist and torch.pdist.
#include <algorithm>
#include <cmath>
#include <limits>

#include "../common/broadcast.h"

namespace opbridge::op {
namespace {

// The p-norms as reductions over differences d >= 0: the initial value, the update by a difference, and the
// final function. All keep NaN.
struct Count {
  template <class T>
  T add(T sum, T d) const {
    return sum + (d > 0 ? T(1) : d);
  }
  template <class T>
  T finish(T sum) const {
    return sum;
  }
};
struct Sum : Count {
  template <class T>
  T add(T sum, T d) const {
    return sum + d;
  }
};
struct Greatest : Count {
  template <class T>
  T add(T most, T d) const {
    return d <= most ? most : (most != most ? most : d);
  }
};
struct Euclidean {
  template <class T>
  T add(T sum, T d) const {
    return sum + d * d;
  }
  template <class T>
  T finish(T sum) const {
    return std::sqrt(sum);
  }
};
struct Power {
  double p;
  template <class T>
  T add(T sum, T d) const {
    return sum + std::pow(d, static_cast<T>(p));
  }
  template <class T>
  T finish(T sum) const {
    return std::pow(sum, static_cast<T>(1 / p));
  }
};

// Keeps several partial sums, so that the compiler can vectorize.
template <class Norm, class T>
T distance(const Norm& norm, const T* a, const T* b, std::int64_t width) {
  constexpr std::int64_t kLanes = 8;
  T sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      sums[lane] = norm.add(sums[lane], std::abs(a[i + lane] - b[i + lane]));
  }
  for (; i < width; ++i) sums[i % kLanes] = norm.add(sums[i % kLanes], std::abs(a[i] - b[i]));
  T total = 0;
  for (const T sum : sums) {
    if constexpr (std::is_same_v<Norm, Greatest>) {
      total = norm.add(total, sum);
    } else {
      total += sum;
    }
  }
  return norm.finish(total);
}

template <class F>
void with_norm(double p, const F& f) {
  if (p == 0) return f(Count());
  if (p == 1) return f(Sum());
  if (p == 2) return f(Euclidean());
  if (p == std::numeric_limits<double>::infinity()) return f(Greatest());
  f(Power{p});
}

// The grain size of a parallel_for over rows that take this many operations each.
std::int64_t grain(std::int64_t operations) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, operations));
}

OPBRIDGE_OPERATOR("opbridge::cdist(Tensor x1, Tensor x2, float p=2.0) -> Tensor")
    .shape([](const Shape& x1, const Shape& x2, double p) {
      require(p >= 0, "p must not be negative");
      require(x1.size() >= 2 && x2.size() >= 2, "x1 and x2 must have two dimensions or more");
      require(x1.back() == x2.back(), "rows of x1 and x2 must have the same length");
      Shape result = broadcast(Shape(x1.begin(), x1.end() - 2), Shape(x2.begin(), x2.end() - 2));
      result.push_back(x1[x1.size() - 2]);
      result.push_back(x2[x2.size() - 2]);
      return result;
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> x1, TensorView<const T> x2,
                                     double p, TensorView<T> out) {
      const std::int64_t rows = x1.dim(-2), columns = x2.dim(-2), width = x1.dim(-1);
      const auto batch = [](std::span<const std::int64_t> dims) { return dims.first(dims.size() - 2); };
      const BroadcastIndex first(batch(x1.dims()), batch(out.dims()));
      const BroadcastIndex second(batch(x2.dims()), batch(out.dims()));
      if (out.empty()) return;
      with_norm(p, [&](const auto& norm) {
        context.parallel_for(
            out.size() / columns, grain(columns * width), [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t row = begin; row < end; ++row) {
                const T* const a = x1.data() + (first(row / rows) * rows + row % rows) * width;
                const T* const others = x2.data() + second(row / rows) * columns * width;
                for (std::int64_t j = 0; j < columns; ++j)
                  out[row * columns + j] = distance(norm, a, others + j * width, width);
              }
            });
      });
    });

OPBRIDGE_OPERATOR("opbridge::pdist(Tensor self, float p=2.0) -> Tensor")
    .shape([](const Shape& self, double p) {
      require(p >= 0, "p must not be negative");
      require(self.size() == 2, "self must have two dimensions");
      return Shape{self[0] * (self[0] - 1) / 2};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> self, double p, TensorView<T> out) {
           const std::int64_t rows = self.dim(0), width = self.dim(1);
           with_norm(p, [&](const auto& norm) {
             context.parallel_for(rows, grain(rows * width), [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i) {
                 T* to = out.data() + i * (2 * rows - i - 1) / 2;
                 for (std::int64_t j = i + 1; j < rows; ++j)
                   *to++ = distance(norm, self.data() + i * width, self.data() + j * width, width);
               }
             });
           });
         });

}  // namespace
}  // namespace opbridge::op
