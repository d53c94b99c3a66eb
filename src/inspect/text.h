// Escapes untrusted text for JSON and terminals, and shortens it for lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opbridge::inspect {

// The text as a JSON string with quotes. Bytes that are not UTF-8 become U+FFFD. `<`, `>` and `&` are
// escaped, so that any string is safe inside a script element of an HTML page.
std::string json_string(std::string_view text);

// The text with control characters and invalid UTF-8 replaced by escapes such as \x1b.
std::string printable(std::string_view text);

// At most `most` characters; the last one is an ellipsis if some were cut.
std::string clipped(std::string_view text, size_t most);

// "97.8 MB", in powers of ten.
std::string size_text(uint64_t bytes);

// "1 node", "2 nodes".
std::string plural(size_t count, std::string_view noun);

// The number of characters.
size_t length(std::string_view text);

// The number of columns that printable text takes on a terminal, where CJK characters and emoji take two.
size_t columns_of(std::string_view text);

// The text in at most `most` columns; the last character is an ellipsis if some were cut.
std::string fitted(std::string_view text, size_t most);

// Printable text as lines of at most `width` columns, at least one. They end at spaces; longer words are
// continued in the next line, or, if not `fold`, make their line longer.
std::vector<std::string> wrapped(std::string_view text, size_t width, bool fold = true);

}  // namespace opbridge::inspect
