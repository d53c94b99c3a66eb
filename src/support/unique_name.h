// Unique names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace opbridge::support {

// The names in use, and how often each has been requested since.
using NameCounts = std::unordered_map<std::string, int>;

// Returns `stem`, or the first free one of `stem_1`, `stem_2`, …, and marks it as used.
std::string unique_name(NameCounts& taken, std::string_view stem);

}  // namespace opbridge::support
