// Names that no two things share.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace opbridge {

// The names that are taken, and how often each was asked for since.
using NameCounts = std::unordered_map<std::string, int>;

// `stem`, or `stem_1`, `stem_2` and so on where that is taken; it is taken then.
std::string unique_name(NameCounts& taken, std::string_view stem);

}  // namespace opbridge
