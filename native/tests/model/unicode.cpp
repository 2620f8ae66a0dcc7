#include "model/unicode.h"

#include <doctest/doctest.h>

using namespace stenod;

TEST_CASE("well-formed text is decoded") {
    CHECK(decode_utf8("aé日𝄞") == U"aé日𝄞");
    CHECK(decode_utf8("").empty());
    CHECK(utf8_character("日本", 3).bytes == 3);
}

TEST_CASE("malformed sequences are replaced by their longest well-formed beginnings") {
    using namespace std::string_view_literals;
    CHECK(decode_utf8("a\xF1\x80\x80\xE1\x80\xC2z\x80y\x80\xBFx"sv) == U"a\uFFFD\uFFFD\uFFFDz\uFFFDy\uFFFD\uFFFDx");
    CHECK(decode_utf8("\xC0\xAF"sv) == U"\uFFFD\uFFFD");                       // overlong
    CHECK(decode_utf8("\xED\xA0\x80"sv) == U"\uFFFD\uFFFD\uFFFD");             // surrogate
    CHECK(decode_utf8("\xF4\x90\x80\x80"sv) == U"\uFFFD\uFFFD\uFFFD\uFFFD");   // beyond the last code point
    CHECK(decode_utf8("\xE6\x97"sv) == U"\uFFFD");                             // cut off
}

TEST_CASE("letters, numbers and spaces of any script are told apart") {
    for (const char32_t letter : U"aZéßΩяאبकあ日한𝒜") if (letter) CHECK(is_letter(letter));
    for (const char32_t number : U"09²½Ⅻ٣७〇𝟘") if (number) CHECK(is_number(number));
    for (const char32_t space : U" \t\n\u0085\u00A0\u2003\u2028\u3000") if (space) CHECK(is_space(space));
    for (const char32_t other : U"-.,!_\u0301\u093E€😀\u200B") {
        CHECK_FALSE(is_letter(other));
        CHECK_FALSE(is_number(other));
        CHECK_FALSE(is_space(other));
    }
    CHECK_FALSE(is_letter(0x10FFFF));
}

TEST_CASE("letters of any script change their case, if they have one") {
    CHECK(lower_case("ÄÖ Straße ΑΒΓ ЖЂ ŁŹ Ÿ 1K") == "äö straße αβγ жђ łź ÿ 1k");
    CHECK(lower_case("a日\xFF" "B") == "a日\xFF" "b");  // malformed bytes stay
    CHECK(initial_capital("übung Eins") == "Übung Eins");
    CHECK(initial_capital("ђ") == "Ђ");
    CHECK(initial_capital("Ab") == "Ab");
    CHECK(initial_capital("1a") == "1a");
    CHECK(initial_capital("").empty());
    CHECK(lower_case("𐐀") == "𐐨");
}
