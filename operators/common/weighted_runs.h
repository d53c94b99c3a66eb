// Weighted sums of runs of memory: bilinear samples of channels-last images are such sums.
#pragma once

#include <cstdint>
#include <span>

#include "best_cpu.h"

namespace opbridge::op {

template <class T>
struct WeightedRun {
  std::int64_t at;  // the offset of the run
  T weight;
};

// sums[i] = sum of weight * from[at + i] over all runs, for i < length; with `more`, this is added to `sums`.
// Must be inlined into on_best_cpu.
template <class T>
OPBRIDGE_INLINE void sum_runs(const T* from, std::span<const WeightedRun<T>> runs, std::int64_t length,
                              T* sums, bool more = false) {
  using Vector = typename Simd<T>::Vector;
  const auto sum_vectors = [&]<int count>(std::int64_t i) __attribute__((always_inline)) {
    Vector sum[count] = {};
    for (int v = 0; more && v < count; ++v) sum[v] = reinterpret_cast<const Vector*>(sums + i)[v];
    for (const WeightedRun<T>& run : runs) {
      const auto* const vectors = reinterpret_cast<const Vector*>(from + run.at + i);
      for (int v = 0; v < count; ++v) sum[v] += run.weight * vectors[v];
    }
    for (int v = 0; v < count; ++v) reinterpret_cast<Vector*>(sums + i)[v] = sum[v];
  };
  constexpr int kLanes = Simd<T>::lanes, kMany = 8, kSome = 4;
  std::int64_t i = 0;
  for (; i + kMany * kLanes <= length; i += kMany * kLanes) sum_vectors.template operator()<kMany>(i);
  for (; i + kSome * kLanes <= length; i += kSome * kLanes) sum_vectors.template operator()<kSome>(i);
  for (; i + kLanes <= length; i += kLanes) sum_vectors.template operator()<1>(i);
  for (; i < length; ++i) {
    T sum = more ? sums[i] : T(0);
    for (const WeightedRun<T>& run : runs) sum += run.weight * from[run.at + i];
    sums[i] = sum;
  }
}

}  // namespace opbridge::op
