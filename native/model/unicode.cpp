#include "unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace stenod {
namespace {

struct CodePointRange {
    char32_t first;
    char32_t last;
};

/// Every `step`th code point from `first` to `last` is a capital, and its small letter lies `distance` further.
struct CaseRange {
    char32_t first;
    char32_t last;
    int step;
    int distance;
};

#include "unicode_classes.inc"

template <size_t count>
bool contains(const CodePointRange (&ranges)[count], char32_t code_point) {
    const auto lies_before = [](char32_t value, const CodePointRange& range) { return value < range.first; };
    const auto after = std::upper_bound(std::begin(ranges), std::end(ranges), code_point, lies_before);
    return after != std::begin(ranges) && code_point <= std::prev(after)->last;
}

char32_t small_letter(char32_t code_point) {
    for (const CaseRange& range : case_ranges) {
        if (code_point < range.first || code_point > range.last) continue;
        if ((code_point - range.first) % static_cast<char32_t>(range.step) == 0) return code_point + range.distance;
    }
    return code_point;
}

char32_t capital(char32_t code_point) {
    for (const CaseRange& range : case_ranges) {
        const char32_t candidate = code_point - range.distance;
        if (candidate < range.first || candidate > range.last) continue;
        if ((candidate - range.first) % static_cast<char32_t>(range.step) == 0) return candidate;
    }
    return code_point;
}

void append_utf8(std::string& text, char32_t code_point) {
    if (code_point < 0x80) {
        text += static_cast<char>(code_point);
        return;
    }
    const int following = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
    text += static_cast<char>((0xF00u >> (following + 1) & 0xFFu) | code_point >> 6 * following);
    for (int i = following; i-- > 0;) text += static_cast<char>(0x80u | (code_point >> 6 * i & 0x3Fu));
}

/// What a lead byte promises: how many bytes follow, and the bounds of the first of them, which
/// exclude overlong forms, surrogates and what lies beyond U+10FFFF.
struct Sequence {
    size_t following;
    uint8_t least;
    uint8_t greatest;
};

Sequence sequence_of(uint8_t lead) {
    if (lead < 0xC2 || lead > 0xF4) return {0, 0, 0};
    Sequence sequence{lead < 0xE0 ? 1u : lead < 0xF0 ? 2u : 3u, 0x80, 0xBF};
    if (lead == 0xE0) sequence.least = 0xA0;
    if (lead == 0xED) sequence.greatest = 0x9F;
    if (lead == 0xF0) sequence.least = 0x90;
    if (lead == 0xF4) sequence.greatest = 0x8F;
    return sequence;
}

}  // namespace

Utf8Character utf8_character(std::string_view text, size_t offset) {
    const auto lead = static_cast<uint8_t>(text[offset]);
    if (lead < 0x80) return {lead, 1};
    const Sequence sequence = sequence_of(lead);
    if (sequence.following == 0) return {replacement_character, 1};
    char32_t code_point = lead & (0x3Fu >> sequence.following);
    for (size_t i = 1; i <= sequence.following; ++i) {
        const auto byte = offset + i < text.size() ? static_cast<uint8_t>(text[offset + i]) : uint8_t{0};
        const uint8_t least = i == 1 ? sequence.least : uint8_t{0x80};
        const uint8_t greatest = i == 1 ? sequence.greatest : uint8_t{0xBF};
        if (byte < least || byte > greatest) return {replacement_character, i};
        code_point = code_point << 6 | (byte & 0x3Fu);
    }
    return {code_point, sequence.following + 1};
}

std::u32string decode_utf8(std::string_view text) {
    std::u32string characters;
    for (size_t offset = 0; offset < text.size();) {
        const Utf8Character character = utf8_character(text, offset);
        characters.push_back(character.code_point);
        offset += character.bytes;
    }
    return characters;
}

bool is_letter(char32_t code_point) { return contains(letter_ranges, code_point); }

bool is_number(char32_t code_point) { return contains(number_ranges, code_point); }

bool is_space(char32_t code_point) {
    constexpr CodePointRange space_ranges[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                               {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                               {0x205F, 0x205F}, {0x3000, 0x3000}};
    return contains(space_ranges, code_point);
}

std::string lower_case(std::string_view text) {
    std::string out;
    for (size_t offset = 0; offset < text.size();) {
        const Utf8Character character = utf8_character(text, offset);
        const char32_t small = small_letter(character.code_point);
        if (small == character.code_point) {
            out += text.substr(offset, character.bytes);
        } else {
            append_utf8(out, small);
        }
        offset += character.bytes;
    }
    return out;
}

std::string initial_capital(std::string_view text) {
    if (text.empty()) return "";
    const Utf8Character character = utf8_character(text, 0);
    const char32_t first = capital(character.code_point);
    if (first == character.code_point) return std::string(text);
    std::string out;
    append_utf8(out, first);
    return out += text.substr(character.bytes);
}

}  // namespace stenod
