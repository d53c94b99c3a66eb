#include "inspect/text.h"

#include <fmt/format.h>

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

std::string clipped(std::string_view text, size_t most) {
  if (length(text) <= most) return std::string(text);
  std::string_view rest = text;
  for (size_t i = 0; i + 1 < most; ++i) rest.remove_prefix(first_character(rest).bytes);
  return std::string(text.substr(0, text.size() - rest.size())) + "…";
}

}  // namespace opbridge::inspect
