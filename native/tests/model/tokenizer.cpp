#include "model/tokenizer.h"

#include <doctest/doctest.h>

#include "errors.h"
#include "fixture.h"

using namespace stenod;
using namespace stenod::tests;

namespace {

const std::vector<std::string>& vocabulary() { return golden().string_array("tokenizer.tokens"); }

const Tokenizer& tokenizer() {
    static const Tokenizer instance(vocabulary(), static_cast<TokenId>(golden().u32("tokenizer.first_special")));
    return instance;
}

}  // namespace

TEST_CASE("texts of many languages are encoded as by the reference") {
    const std::vector<std::string>& texts = golden().string_array("tokenizer.texts");
    const auto expected = golden_lists("tokenizer.ids");
    REQUIRE(texts.size() == expected.size());
    for (size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(texts[i]);
        CHECK(tokenizer().encode(texts[i]) == expected[i]);
        CHECK(tokenizer().decode(expected[i]) == texts[i]);
    }
}

TEST_CASE("any bytes survive encoding and decoding") {
    std::string bytes;
    for (int byte = 255; byte >= 0; --byte) bytes.push_back(static_cast<char>(byte));
    CHECK(tokenizer().decode(tokenizer().encode(bytes)) == bytes);
}

TEST_CASE("a very long word is encoded in reasonable time") {
    const std::string word(1000000, 'a');
    CHECK(tokenizer().decode(tokenizer().encode(word)) == word);
}

TEST_CASE("special tokens have no text and are not made from text") {
    const auto special = static_cast<TokenId>(golden().u32("tokenizer.first_special"));
    CHECK(tokenizer().is_special(special));
    CHECK_FALSE(tokenizer().is_special(special - 1));
    CHECK(tokenizer().bytes(special).empty());
    CHECK(vocabulary()[static_cast<size_t>(special)] == "<|endoftext|>");
    for (const TokenId id : tokenizer().encode("<|endoftext|>")) CHECK_FALSE(tokenizer().is_special(id));
}

TEST_CASE("a token that begins with a space begins a word") {
    CHECK(tokenizer().is_word_start(tokenizer().encode(" the").front()));
    CHECK_FALSE(tokenizer().is_word_start(tokenizer().encode("the").front()));
}

TEST_CASE("ids outside the vocabulary are refused") {
    CHECK_THROWS_AS(tokenizer().bytes(-1), BadArgument);
    CHECK_THROWS_AS(tokenizer().decode({static_cast<TokenId>(tokenizer().size())}), BadArgument);
}

TEST_CASE("vocabularies that cannot spell every text are refused") {
    std::vector<std::string> tokens = vocabulary();
    const auto special = static_cast<TokenId>(golden().u32("tokenizer.first_special"));
    CHECK_THROWS_AS(Tokenizer(tokens, -1), BadModel);
    CHECK_THROWS_AS(Tokenizer(tokens, static_cast<TokenId>(tokens.size() + 1)), BadModel);
    tokens[300] = "日";
    CHECK_THROWS_AS(Tokenizer(tokens, special), BadModel);
    tokens = vocabulary();
    tokens[0] = tokens[1];
    CHECK_THROWS_AS(Tokenizer(tokens, special), BadModel);
}
