// Text for a shell.
#pragma once

#include <string>
#include <string_view>

namespace opbridge::support {

// The text as one word, in single quotes.
std::string shell_quoted(std::string_view text);

}  // namespace opbridge::support
