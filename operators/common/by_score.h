// Which of many comes first.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

namespace opbridge::op {

// An integer that is the smaller, the greater the score is; the smallest for NaN.
template <class T>
auto place_of(T score) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  if (std::isnan(score)) return Bits{0};
  const auto bits = std::bit_cast<Bits>(score + T(0));  // -0 is 0
  constexpr Bits kSign = ~(~Bits{0} >> 1);
  return (bits & kSign) != 0 ? bits : static_cast<Bits>(~(bits | kSign));
}

// Indices by descending score, of equal ones the first first; NaN before all numbers, as in torch.sort. By
// radix: comparisons of scores are what a processor cannot foresee.
template <class T>
std::vector<std::int64_t> by_score(const T* scores, std::int64_t count) {
  struct Entry {
    decltype(place_of(T())) place;
    std::int64_t index;
  };
  constexpr std::size_t kDigits = sizeof(Entry::place);
  const auto digit = [](const Entry& entry, std::size_t i) { return entry.place >> (8 * i) & 0xff; };

  std::vector<Entry> entries(static_cast<std::size_t>(count)), sorted(entries.size());
  std::array<std::array<std::size_t, 256>, kDigits> begins{};  // of the entries of a digit; first, how many
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i] = {place_of(scores[i]), static_cast<std::int64_t>(i)};
    for (std::size_t k = 0; k < kDigits; ++k) ++begins[k][digit(entries[i], k)];
  }
  for (std::size_t k = 0; k < kDigits; ++k) {
    std::exclusive_scan(begins[k].begin(), begins[k].end(), begins[k].begin(), std::size_t{0});
    for (const Entry& entry : entries) sorted[begins[k][digit(entry, k)]++] = entry;
    entries.swap(sorted);
  }
  std::vector<std::int64_t> order(entries.size());
  std::ranges::transform(entries, order.begin(), &Entry::index);
  return order;
}

}  // namespace opbridge::op
