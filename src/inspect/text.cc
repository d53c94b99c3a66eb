#include "inspect/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace opbridge::inspect {
namespace {

// A character: its code point, missing if the bytes are not UTF-8, and its length in bytes.
struct Character {
  std::optional<uint32_t> code;
  size_t bytes;
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {std::nullopt, 1};
  uint32_t code = lead & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {std::nullopt, 1};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < least[bytes] || code > 0x10FFFF || is_surrogate) return {std::nullopt, 1};
  return {code, bytes};
}

struct Range {
  uint32_t first, last;
};

// Blocks of Unicode whose characters take two columns (East Asian Width W or F, emoji) or none (combining
// marks, joiners, selectors). Their few exceptions do not matter here.
constexpr Range wide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
                          {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},
                          {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x18DFF}, {0x1B000, 0x1B2FF},
                          {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};
constexpr Range without_width[] = {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F},
                                   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x202A, 0x202E},
                                   {0x2060, 0x2064}, {0x20D0, 0x20FF}, {0x302A, 0x302D}, {0x3099, 0x309A},
                                   {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}};

size_t columns_of(const Character& character) {
  const uint32_t code = character.code.value_or(0xFFFD);
  const auto has = [code](const Range& range) { return code >= range.first && code <= range.last; };
  if (std::ranges::any_of(without_width, has)) return 0;
  return std::ranges::any_of(wide, has) ? 2 : 1;
}

// The beginning of the text, of at least one character, that takes at most `width` columns.
std::string_view beginning(std::string_view text, size_t width) {
  size_t bytes = 0;
  for (size_t columns = 0; bytes < text.size();) {
    const Character character = first_character(text.substr(bytes));
    columns += columns_of(character);
    if (columns > width && bytes > 0) break;
    bytes += character.bytes;
  }
  return text.substr(0, bytes);
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    const uint32_t c = code.value_or(0xFFFD);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7F || c == 0x2028 || c == 0x2029 ||
               !code) {
      result += fmt::format("\\u{:04x}", c);
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return result + '"';
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    if (!code || *code < 0x20 || (*code >= 0x7F && *code < 0xA0)) {
      for (const char c : text.substr(0, bytes)) result += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return result;
}

std::string size_text(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"kB", "MB", "GB", "TB"}) {
    if (size < 1000) break;
    size /= 1000;
    unit = next;
  }
  return fmt::format("{:.1f} {}", size, unit);
}

std::string plural(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

size_t length(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text).bytes);
  return count;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += columns_of(character);
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string fitted(std::string_view text, size_t most) {
  if (columns_of(text) <= most) return std::string(text);
  return most < 2 ? "…" : std::string(beginning(text, most - 1)) + "…";
}

std::vector<std::string> wrapped(std::string_view text, size_t width, bool fold) {
  std::vector<std::string> lines{""};
  size_t columns = 0;  // of the last line
  while (!text.empty()) {
    const size_t start = std::min(text.find_first_not_of(' '), text.size());
    std::string_view word = text.substr(start, text.find(' ', start) - start);
    text.remove_prefix(start + word.size());
    if (word.empty()) break;
    if (columns > 0 && columns + start + columns_of(word) <= width) {
      lines.back().append(start, ' ');
      columns += start;
    } else if (columns > 0) {
      lines.emplace_back();
      columns = 0;
    }
    while (fold) {
      const std::string_view part = beginning(word, width);
      if (part.size() == word.size()) break;
      lines.back() = part;
      lines.emplace_back();
      word.remove_prefix(part.size());
    }
    lines.back() += word;
    columns += columns_of(word);
  }
  return lines;
}

std::string clipped(std::string_view text, size_t most) {
  if (length(text) <= most) return std::string(text);
  std::string_view rest = text;
  for (size_t i = 0; i + 1 < most; ++i) rest.remove_prefix(first_character(rest).bytes);
  return std::string(text.substr(0, text.size() - rest.size())) + "…";
}

}  // namespace opbridge::inspect
