// Sorts by score.
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

// Maps a score to an integer that decreases as the score grows; NaN maps to the smallest.
template <class T>
auto sort_key(T score) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  if (std::isnan(score)) return Bits{0};
  const auto bits = std::bit_cast<Bits>(score + T(0));  // -0 is 0
  constexpr Bits kSign = ~(~Bits{0} >> 1);
  return (bits & kSign) != 0 ? bits : static_cast<Bits>(~(bits | kSign));
}

// Indices by descending score. The sort is stable and puts NaN first, as torch.sort does. It is a radix sort:
// branches on scores would be mispredicted.
template <class T>
std::vector<std::int64_t> by_score(const T* scores, std::int64_t count) {
  struct Entry {
    decltype(sort_key(T())) key;
    std::int64_t index;
  };
  constexpr std::size_t kDigits = sizeof(Entry::key);
  const auto digit = [](const Entry& entry, std::size_t i) { return entry.key >> (8 * i) & 0xff; };

  std::vector<Entry> entries(static_cast<std::size_t>(count)), sorted(entries.size());
  std::array<std::array<std::size_t, 256>, kDigits>
      begins{};  // first counts, then offsets of the entries of each digit
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i] = {sort_key(scores[i]), static_cast<std::int64_t>(i)};
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
