// Definitions shared by print and parse of a graph's text.
#pragma once

#include <cstdint>
#include <type_traits>

namespace opbridge::ir {

// Whether the character may occur in a word: the name of a value, an attribute or a type.
constexpr bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == ':' || c == '/' || c == '-' || c == '~';
}

// Calls `visit` with std::type_identity<T> for each C++ type T of printed weight elements.
template <class Visit>
void for_each_number_type(Visit visit) {
  [&]<class... T>(std::type_identity<void(T...)>) {
    (visit(std::type_identity<T>()), ...);
  }(std::type_identity<void(bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                            float, double)>());
}

}  // namespace opbridge::ir
