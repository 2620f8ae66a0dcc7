#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stenod {

/// What stands for a malformed sequence.
constexpr char32_t replacement_character = 0xFFFD;

/// One character of a UTF-8 text.
struct Utf8Character {
    char32_t code_point;  ///< replacement_character if malformed
    size_t bytes;         ///< at least 1; of a malformed sequence its longest well-formed beginning
};

/// The character that begins at `offset` < text.size().
Utf8Character utf8_character(std::string_view text, size_t offset);

/// All characters; malformed sequences are replaced as Unicode recommends and Python does.
std::u32string decode_utf8(std::string_view text);

/// General category L*.
bool is_letter(char32_t code_point);

/// General category N*.
bool is_number(char32_t code_point);

/// Unicode's White_Space.
bool is_space(char32_t code_point);

/// The text in lower case, as far as a capital has one small letter of its own.
std::string lower_case(std::string_view text);

/// The text with its first character in upper case, likewise.
std::string initial_capital(std::string_view text);

}  // namespace stenod
