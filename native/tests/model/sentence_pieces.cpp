#include "model/sentence_pieces.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "errors.h"
#include "fixture.h"

using namespace stenod;
using namespace stenod::tests;

namespace {

SentencePieces pieces_of(GgufFile& file, const std::string& kind) {
    const auto& pieces = file.string_array(kind + ".pieces");
    return SentencePieces(pieces, file.f32_array(kind + ".scores"), static_cast<int>(pieces.size()) - 1);
}

std::string decode(const SentencePieces& pieces, const std::vector<int>& ids) {
    std::string text;
    for (int id : ids) text += pieces.bytes(id);
    return text;
}

}  // namespace

TEST_CASE("texts are split as SentencePiece splits them") {
    GgufFile file(SENTENCE_PIECES);
    for (const std::string kind : {"bpe", "unigram"}) {
        const SentencePieces pieces = pieces_of(file, kind);
        auto next = file.i32_array(kind + ".ids").begin();
        size_t all_known = 0;
        for (size_t i = 0; i < file.string_array("texts").size(); ++i) {
            const std::vector<int> expected(next, next + file.i32_array(kind + ".ids.lengths")[i]);
            next += static_cast<std::ptrdiff_t>(expected.size());
            CAPTURE(kind);
            CAPTURE(file.string_array("texts")[i]);
            const bool known = std::find(expected.begin(), expected.end(), 0) == expected.end();
            CHECK(pieces.encode(file.string_array("texts")[i]) == (known ? expected : std::vector<int>()));
            all_known += known;
        }
        CHECK(all_known == file.string_array("texts").size() - 1);
    }
}

TEST_CASE("pieces become text") {
    GgufFile file(SENTENCE_PIECES);
    const SentencePieces pieces = pieces_of(file, "bpe");
    CHECK(decode(pieces, pieces.encode("größere  Übung, then stop.")) == " größere Übung, then stop.");
    CHECK(pieces.encode("漢").empty());
    CHECK(pieces.encode(" \n").empty());
    CHECK_THROWS_AS(pieces.bytes(-1), BadArgument);
    CHECK_THROWS_AS(pieces.bytes(static_cast<int>(pieces.size())), BadArgument);
}

TEST_CASE("pieces are told apart") {
    const SentencePieces pieces({"<unk>", "▁", "▁a", "b", ",", "?!", "。", "▁-", "<0xE2>", "<EOU>", "<EOB>", "%", "<|en|>", "<blank>"},
                                {}, 13);
    enum Kind { word_start, word_part, punctuation, control, end };
    const Kind expected[] = {control, word_start, word_start, word_part, punctuation, punctuation, punctuation, word_start,
                             word_part, end, end, word_part, control, control};
    for (int id = 0; id < 14; ++id) {
        CAPTURE(id);
        CHECK(pieces.is_word_start(id) == (expected[id] == word_start));
        CHECK(pieces.continues_word(id) == (expected[id] == word_part));
        CHECK(pieces.is_punctuation(id) == (expected[id] == punctuation));
        CHECK(pieces.is_end_of_utterance(id) == (expected[id] == end));
    }
    CHECK(pieces.bytes(0).empty());
    CHECK(pieces.bytes(8) == "\xE2");
    CHECK(pieces.bytes(9).empty());
    CHECK(pieces.bytes(13).empty());
}

TEST_CASE("without scores, the fewest pieces") {
    const SentencePieces pieces({"▁", "a", "b", "▁a", "ab", "▁aba", "b", "▁ab", "<blank>"}, {}, 8);
    CHECK(pieces.encode("ab") == std::vector<int>{7});
    CHECK(pieces.encode("abab") == std::vector<int>{7, 4});  // the longest match first would take three
    CHECK(pieces.encode("ac").empty());
}

TEST_CASE("a vocabulary that contradicts itself is refused") {
    CHECK_THROWS_AS(SentencePieces({"a", "b"}, {0.0f}, 1), BadModel);
    CHECK_THROWS_AS(SentencePieces({"a", "b"}, {}, 2), BadModel);
    CHECK_THROWS_AS(SentencePieces({}, {}, 0), BadModel);
}
