#include "model/words.h"

#include <doctest/doctest.h>

#include "errors.h"
#include "fixture.h"

using namespace stenod;
using namespace stenod::tests;

namespace {

const Tokenizer& tokenizer() {
    static const Tokenizer instance(golden().string_array("tokenizer.tokens"),
                                    static_cast<TokenId>(golden().u32("tokenizer.first_special")));
    return instance;
}

std::vector<int32_t> word_lengths(const std::vector<TokenId>& ids, std::string_view language) {
    std::vector<int32_t> lengths;
    for (const Word& word : split_words(tokenizer(), ids, language))
        lengths.push_back(static_cast<int32_t>(word.token_count));
    return lengths;
}

std::vector<std::string> word_texts(const std::vector<TokenId>& ids, std::string_view language) {
    std::vector<std::string> texts;
    for (const Word& word : split_words(tokenizer(), ids, language)) texts.push_back(word.text);
    return texts;
}

}  // namespace

TEST_CASE("words are those of the reference") {
    const auto ids = golden_lists("tokenizer.ids");
    const auto spaced = golden_lists("words.en"), unspaced = golden_lists("words.ja");
    for (size_t i = 0; i < ids.size(); ++i) {
        CAPTURE(tokenizer().decode(ids[i]));
        CHECK(word_lengths(ids[i], "en") == spaced[i]);
        CHECK(word_lengths(ids[i], "ja") == unspaced[i]);
    }
}

TEST_CASE("every text token is in exactly one word, also of broken text") {
    for (std::vector<TokenId> ids : golden_lists("tokenizer.ids")) {
        if (ids.size() > 4) ids.erase(ids.begin() + 3);
        for (const char* language : {"en", "zh"}) {
            size_t next = 0;
            std::string text;
            for (const Word& word : split_words(tokenizer(), ids, language)) {
                CHECK(word.first_token == next);
                next += word.token_count;
                text += word.text;
            }
            CHECK(next == ids.size());
            CHECK(text == tokenizer().decode(ids));
        }
    }
}

TEST_CASE("punctuation goes with its word") {
    CHECK(word_texts(tokenizer().encode(" He said \"yes\", (twice)."), "en") ==
          std::vector<std::string>{" He", " said", " \"yes\",", " (twice)."});
}

TEST_CASE("special tokens end a word and belong to none") {
    const auto special = static_cast<TokenId>(golden().u32("tokenizer.first_special"));
    std::vector<TokenId> ids = tokenizer().encode(" the");
    ids.push_back(special);
    for (const TokenId id : tokenizer().encode("re.")) ids.push_back(id);
    ids.push_back(special);
    CHECK(word_texts(ids, "en") == std::vector<std::string>{" the", "re."});
    CHECK(split_words(tokenizer(), ids, "en")[1].first_token == tokenizer().encode(" the").size() + 1);
    CHECK(split_words(tokenizer(), {special}, "en").empty());
    CHECK(split_words(tokenizer(), {}, "en").empty());
    CHECK_THROWS_AS(split_words(tokenizer(), {-1}, "en"), BadArgument);
}

TEST_CASE("marks that close a word are told from words and from parts of characters") {
    for (const char* text : {".", ",", "?", "...", "?\"", " .", "\u3002", "\uff1f"}) {
        CAPTURE(text);
        CHECK(is_closing_punctuation(text));
    }
    for (const char* text : {"", " ", "a", " a", ".5", "-", "(", " $", "\xe3\x80", "\xe3"}) {
        CAPTURE(text);
        CHECK_FALSE(is_closing_punctuation(text));
    }
}
