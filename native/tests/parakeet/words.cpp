#include "parakeet/words.h"

#include <cmath>

#include <doctest/doctest.h>

using namespace stenod;
using namespace stenod::parakeet;

namespace {

const SentencePieces& pieces() {
    static const SentencePieces pieces({"<unk>", "▁hel", "lo", ",", "▁world", "?", "'", "▁\"", "<b>"}, {}, 8);
    return pieces;
}

constexpr int kHel = 1, kLo = 2, kComma = 3, kWorld = 4, kQuestion = 5, kQuote = 7;

}  // namespace

TEST_CASE("tokens last their durations, punctuation stands at the end of the token before it") {
    TokenTimer timer(pieces(), 0.08);
    const auto timed = timer.time({{kHel, 10, 2, std::log(0.5f)}, {kLo, 12, 0, 0}, {kComma, 14, 3, 0}});
    REQUIRE(timed.size() == 3);
    CHECK(timed[0].start == doctest::Approx(0.80));
    CHECK(timed[0].end == doctest::Approx(0.96));
    CHECK(timed[0].p == doctest::Approx(0.5));
    CHECK(timed[1].start == doctest::Approx(0.96));
    CHECK(timed[1].end == doctest::Approx(1.04));  // a frame at least
    CHECK(timed[2].start == timed[1].end);
    CHECK(timed[2].end == timed[1].end);

    const auto later = timer.time({{kQuestion, 30, 1, 0}, {kWorld, 31, 4, 0}});
    CHECK(later[0].start == timed[1].end);  // of an earlier call
    CHECK(later[0].end == timed[1].end);
    CHECK(later[1].start == doctest::Approx(31 * 0.08));
    CHECK(later[1].end == doctest::Approx(35 * 0.08));
}

TEST_CASE("a word is whole when the next one begins") {
    const auto count = [](std::vector<int> ids) {
        std::vector<Token> tokens;
        for (int id : ids) tokens.push_back({id, 0, 0, 0});
        return whole_words(pieces(), tokens);
    };
    CHECK(count({}) == 0);
    CHECK(count({kHel}) == 0);
    CHECK(count({kHel, kLo, kComma}) == 0);
    CHECK(count({kHel, kLo, kComma, kWorld}) == 3);
    CHECK(count({kHel, kLo, kComma, kWorld, kQuestion, kQuote}) == 5);
    CHECK(count({kLo, kComma}) == 0);
    CHECK(count({kLo, kComma, kHel}) == 2);
}
