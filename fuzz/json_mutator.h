// Mutates the structure of JSON. The result is JSON again, with other numbers, names, shapes and lists.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace opbridge::fuzz {

using Random = std::minstd_rand;

// `text` with one to four mutations; unchanged if it is not JSON.
std::string mutate_json(std::string text, Random& random);

}  // namespace opbridge::fuzz
