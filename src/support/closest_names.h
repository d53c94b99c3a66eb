// "Did you mean ...?"
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace opbridge {

// The candidates that `word` may be a misspelling of, the nearest first, at most three: those that about one
// edit for every three letters turns into it, where an edit inserts, deletes or replaces a letter or swaps
// two neighbours. The case of letters does not count.
std::vector<std::string_view> closest_names(std::string_view word,
                                            std::span<const std::string_view> candidates);

}  // namespace opbridge
