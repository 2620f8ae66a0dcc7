#include "parakeet/phrases.h"

#include <random>

#include <doctest/doctest.h>

#include "errors.h"

using namespace stenod;
using namespace stenod::parakeet;

namespace {

enum : int { kTurn = 1, kOn, kOff, kThe, kStop, kPed, kLight, kS, kComma, kBigOn, kBlank };

const SentencePieces& pieces() {
    static const SentencePieces pieces(
        {"<unk>", "▁turn", "▁on", "▁off", "▁the", "▁stop", "ped", "▁light", "s", ",", "▁On", "<b>"}, {}, kBlank);
    return pieces;
}

/// What a row of tokens scores, and what is taken back at its end.
float score(const PhraseTree& tree, const std::vector<int>& tokens) {
    int node = PhraseTree::kRoot;
    float sum = 0;
    for (int token : tokens) {
        const PhraseTree::Step step = tree.step(node, token);
        node = step.node;
        sum += step.score;
    }
    return sum + tree.leave(node);
}

}  // namespace

TEST_CASE("a phrase scores for each of its tokens, half for the first, and nothing if it breaks off") {
    const PhraseTree tree(pieces(), {"turn on the lights", "stop"}, 2);
    CHECK(score(tree, {kTurn, kOn, kThe, kLight, kS}) == 9);
    CHECK(score(tree, {kThe, kTurn, kOn, kThe, kLight, kS, kThe}) == 9);
    CHECK(score(tree, {kTurn}) == 0);
    CHECK(score(tree, {kTurn, kOn, kThe}) == 0);
    CHECK(score(tree, {kTurn, kOn, kThe, kOff}) == 0);
    CHECK(score(tree, {kTurn, kOn, kThe, kLight, kThe}) == 0);
    CHECK(score(tree, {kTurn, kTurn, kOn, kThe, kLight, kS}) == 9);
    CHECK(score(tree, {kTurn, kOn, kStop}) == 1);
    CHECK(score(tree, {kStop, kStop, kTurn}) == 2);
    CHECK(score(tree, {}) == 0);
}

TEST_CASE("a phrase does not favour a longer word") {
    const PhraseTree tree(pieces(), {"stop", "light"}, 2);
    CHECK(score(tree, {kStop}) == 1);
    CHECK(score(tree, {kStop, kComma}) == 1);
    CHECK(score(tree, {kStop, kThe}) == 1);
    CHECK(score(tree, {kStop, kPed}) == 0);
    CHECK(score(tree, {kStop, kPed, kStop, kThe}) == 1);
    CHECK(score(tree, {kLight, kS, kThe}) == 0);
}

TEST_CASE("a phrase within another, or at its beginning, counts by itself") {
    const PhraseTree tree(pieces(), {"turn on", "turn on the lights"}, 2);
    CHECK(score(tree, {kTurn, kOn}) == 3);
    CHECK(score(tree, {kTurn, kOn, kThe}) == 3);
    CHECK(score(tree, {kTurn, kOn, kThe, kLight}) == 3);
    CHECK(score(tree, {kTurn, kOn, kThe, kLight, kS}) == 9);
    const PhraseTree inner(pieces(), {"turn on the lights", "on the"}, 2);
    CHECK(score(inner, {kOn, kThe}) == 3);
    CHECK(score(inner, {kOn, kThe, kLight, kS}) == 3);
    CHECK(score(inner, {kTurn, kOn, kOff}) == 0);
    CHECK(score(inner, {kTurn, kOn, kThe}) == 4);  // as parts of the longer phrase, two tokens score in full
    CHECK(score(inner, {kTurn, kOn, kThe, kOff}) == 4);
    CHECK(score(inner, {kTurn, kOn, kThe, kLight, kS}) == 9);
}

TEST_CASE("what breaks off may be the beginning of another phrase") {
    const PhraseTree tree(pieces(), {"turn on the off", "the light"}, 2);
    CHECK(score(tree, {kTurn, kOn, kThe, kLight}) == 3);
    CHECK(score(tree, {kTurn, kOn, kThe, kOff}) == 7);
}

TEST_CASE("all scores at once are those of single steps") {
    const PhraseTree tree(pieces(), {"turn on", "turn on the lights", "the light", "on the", "stop", "off stop"}, 1.5f);
    std::mt19937 random(2);
    int node = PhraseTree::kRoot;
    for (int i = 0; i < 2000; ++i) {
        std::vector<float> scores(pieces().size() - 1, 0.0f);
        tree.favour(node, scores.data());
        for (int token = 0; token < kBlank; ++token) {
            REQUIRE(scores[token] == doctest::Approx(tree.step(node, token).score));
        }
        node = tree.step(node, static_cast<int>(random() % kBlank)).node;
    }
}

TEST_CASE("phrases are favoured in their usual spellings") {
    const PhraseTree tree(pieces(), {"TURN ON"}, 2);
    CHECK(score(tree, {kTurn, kOn}) == 3);
    const PhraseTree capital(pieces(), {"on"}, 2);
    CHECK(score(capital, {kOn}) == 1);
    CHECK(score(capital, {kBigOn}) == 1);
}

TEST_CASE("phrases that cannot be spelled are refused by name") {
    CHECK_THROWS_WITH_AS(PhraseTree(pieces(), {"turn on", "xylophone"}, 1),
                         "phrases: 'xylophone' is empty, or the model's vocabulary cannot spell it", BadArgument);
    CHECK_THROWS_AS(PhraseTree(pieces(), {" "}, 1), BadArgument);
}
