#include "support/closest_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace opbridge::support {
namespace {

constexpr std::size_t most_names = 3;
constexpr std::size_t shortest_beginning = 3;
constexpr std::size_t longest_word = 100;  // operator names are shorter; the running time is quadratic

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same(char a, char b) { return lower(a) == lower(b); }

bool begins_with(std::string_view text, std::string_view beginning) {
  return text.size() >= beginning.size() &&
         std::ranges::equal(text.substr(0, beginning.size()), beginning, same);
}

// The "optimal string alignment" distance of the words, computed row by row.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string_view> closest_names(std::string_view word,
                                            std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > longest_word) return {};
  const std::size_t most_edits = std::max<std::size_t>(1, word.size() / 3);
  std::vector<std::pair<std::size_t, std::string_view>> found;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    const bool misspelt = distance <= most_edits && distance < candidate.size();
    const bool shortened = word.size() >= shortest_beginning && begins_with(candidate, word);
    if (misspelt || shortened) found.emplace_back(distance, candidate);
  }
  std::ranges::sort(found);
  if (found.size() > most_names) found.resize(most_names);
  std::vector<std::string_view> names(found.size());
  std::ranges::transform(found, names.begin(), [](const auto& entry) { return entry.second; });
  return names;
}

}  // namespace opbridge::support
