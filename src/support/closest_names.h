// Suggestions for misspelled names.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace opbridge::support {

// At most three candidates that `word` may be a misspelling or a prefix of, the closest first. A candidate
// qualifies within about one edit for every three letters. An edit inserts, deletes or replaces a letter, or
// swaps two neighbours. Case is ignored.
std::vector<std::string_view> closest_names(std::string_view word,
                                            std::span<const std::string_view> candidates);

}  // namespace opbridge::support
