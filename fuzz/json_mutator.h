// Changes JSON in its structure: what comes out is JSON again, with other numbers, names, shapes and lists.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace opbridge::fuzz {

using Random = std::minstd_rand;

// `text` with one to four changes; as it is where it is no JSON.
std::string mutate_json(std::string text, Random& random);

}  // namespace opbridge::fuzz
