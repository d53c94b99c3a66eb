// Text made fit for JSON, for a terminal, for a line: also that from files that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace opbridge::inspect {

// The text as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD. `<`, `>` and `&` are
// escaped, so that the string may stand inside a script element of an HTML page whatever it says.
std::string json_string(std::string_view text);

// The text without control characters and bytes that are not UTF-8, which become escapes such as \x1b.
std::string printable(std::string_view text);

// At most `most` characters, the last an ellipsis where some were left out.
std::string clipped(std::string_view text, size_t most);

// "97.8 MB", in powers of ten.
std::string size_text(uint64_t bytes);

// The number of characters.
size_t length(std::string_view text);

}  // namespace opbridge::inspect
