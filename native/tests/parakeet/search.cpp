#include "parakeet/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <doctest/doctest.h>

#include "errors.h"
#include "random_head.h"
#include "reference.h"

using namespace stenod;
using namespace stenod::parakeet;
using namespace stenod::tests;

namespace stenod::parakeet {

bool operator==(const Token& a, const Token& b) {
    return a.id == b.id && a.frame == b.frame && a.duration == b.duration && a.logprob == b.logprob;
}
doctest::String toString(const Token& token) {
    return doctest::toString(token.id) + "@" + doctest::toString(token.frame) + "+" + doctest::toString(token.duration);
}

}  // namespace stenod::parakeet

namespace {

std::vector<HeadSize> kinds() {
    HeadSize tdt, capped, rnnt, ctc;
    capped.max_symbols = 3;
    capped.stay_bias = 4;
    capped.blank_bias = -2;
    rnnt.durations = {};
    rnnt.layers = 1;
    rnnt.max_symbols = 2;
    ctc.ctc = true;
    ctc.tokens = 4;
    return {tdt, capped, rnnt, ctc};
}

/// Every token is a word: "w0", "w1", ...
std::shared_ptr<const PhraseTree> favouring(const RandomHead& random, const std::vector<std::string>& phrases, float bonus) {
    std::vector<std::string> pieces;
    for (int i = 0; i < random.weights.tokens; ++i) pieces.push_back("▁w" + std::to_string(i));
    pieces.push_back("<blank>");
    return std::make_shared<const PhraseTree>(SentencePieces(pieces, {}, random.weights.blank()), phrases, bonus);
}

std::vector<SearchOptions> all_options(const RandomHead& random) {
    if (random.weights.is_ctc()) return {{1, nullptr}};
    const auto phrases = favouring(random, {"w3 w5", "w1", "w3 w7 w8", "w20 w21", "w5 w30"}, 2);
    return {{1, nullptr}, {2, nullptr}, {5, nullptr}, {1, phrases}, {4, phrases}};
}

/// What a search finds when it hears the frames in pieces that end at `cuts`.
std::vector<Token> search(Head& head, const std::vector<float>& projected, std::vector<int> cuts,
                          const SearchOptions& options = {}) {
    Search search(head.weights(), options);
    const int width = head.weights().frame_width();
    cuts.push_back(static_cast<int>(projected.size()) / width);
    std::vector<Token> tokens;
    int begin = 0;
    for (int cut : cuts) {
        advance(head, {{&search, projected.data() + begin * width, cut - begin}});
        for (const Token& token : search.take_committed()) tokens.push_back(token);
        begin = cut;
    }
    search.finish();
    for (const Token& token : search.take_committed()) tokens.push_back(token);
    CHECK(search.tentative().empty());
    return tokens;
}

std::vector<int> random_cuts(int count, std::mt19937& random) {
    std::vector<int> cuts;
    for (int i = 0; i <= count; ++i) {
        while (random() % 3 == 0) cuts.push_back(i);  // sometimes twice: an empty piece
    }
    return cuts;
}

}  // namespace

TEST_CASE("the greedy search finds what the definition finds") {
    size_t found = 0, capped = 0;
    for (HeadSize size : kinds()) {
        if (size.ctc) continue;
        for (unsigned seed = 1; seed <= 6; ++seed) {
            const RandomHead random(size, seed);
            Head head(random.weights, executor());
            const std::vector<float> frames = random.frames(40, seed);
            const std::vector<Token> expected = reference_greedy(random.weights, frames);
            const std::vector<Token> tokens = search(head, head.project(frames.data(), 40), {});
            REQUIRE(tokens.size() == expected.size());
            for (size_t i = 0; i < tokens.size(); ++i) {
                CHECK(tokens[i].id == expected[i].id);
                CHECK(tokens[i].frame == expected[i].frame);
                CHECK(tokens[i].duration == expected[i].duration);
                CHECK(std::abs(tokens[i].logprob - expected[i].logprob) < 1e-4);
            }
            found += tokens.size();
            std::map<int64_t, int> at_frame;
            for (const Token& token : tokens) capped += ++at_frame[token.frame] == size.max_symbols;
        }
    }
    CHECK(found > 200);
    CHECK(capped > 10);
}

TEST_CASE("CTC takes the best token of each frame, and a run as one") {
    HeadSize size;
    size.ctc = true;
    size.tokens = 4;
    const RandomHead random(size);
    Head head(random.weights, executor());
    const std::vector<float> frames = random.frames(60, 1);
    const std::vector<float> projected = head.project(frames.data(), 60);
    const std::vector<float> weight = values(random.weights.ctc), bias = values(random.weights.ctc_bias);
    std::vector<Token> expected;
    int before = random.weights.blank();
    for (int t = 0; t < 60; ++t) {
        std::vector<double> logits(size.tokens + 1);
        for (size_t k = 0; k < logits.size(); ++k) {
            logits[k] = bias[k];
            for (int i = 0; i < size.encoder_width; ++i) {
                logits[k] += weight[k * size.encoder_width + i] * frames[t * size.encoder_width + i];
            }
        }
        const int best = static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
        if (best == before && best != random.weights.blank()) ++expected.back().duration;
        if (best != before && best != random.weights.blank()) {
            expected.push_back({best, t, 1, static_cast<float>(log_softmax(logits.data(), logits.size())[best])});
        }
        before = best;
    }
    const std::vector<Token> tokens = search(head, projected, {});
    REQUIRE(tokens.size() == expected.size());
    CHECK(tokens.size() > 20);
    for (size_t i = 0; i < tokens.size(); ++i) {
        CHECK(tokens[i].id == expected[i].id);
        CHECK(tokens[i].frame == expected[i].frame);
        CHECK(tokens[i].duration == expected[i].duration);
        CHECK(std::abs(tokens[i].logprob - expected[i].logprob) < 1e-4);
    }
}

TEST_CASE("a beam of one is the greedy search") {
    for (const HeadSize& size : kinds()) {
        if (size.ctc) continue;
        for (unsigned seed = 1; seed <= 6; ++seed) {
            const RandomHead random(size, seed);
            Head head(random.weights, executor());
            const std::vector<float> frames = random.frames(40, seed);
            const std::vector<float> projected = head.project(frames.data(), 40);
            Beam beam(random.weights, 1);
            beam.feed(projected.data(), 40);
            while (true) {
                std::vector<Query*> queries;
                beam.ask(queries);
                if (queries.empty()) break;
                head.answer(queries);
                beam.take();
            }
            beam.finish();
            CHECK(beam.committed == search(head, projected, {}));
        }
    }
}

TEST_CASE("tokens do not depend on how the frames are cut") {
    std::mt19937 generator(4);
    for (const HeadSize& size : kinds()) {
        const RandomHead random(size);
        Head head(random.weights, executor());
        const std::vector<float> frames = random.frames(50, 9);
        const std::vector<float> projected = head.project(frames.data(), 50);
        for (const SearchOptions& options : all_options(random)) {
            CAPTURE(options.beam);
            const std::vector<Token> whole = search(head, projected, {}, options);
            CHECK(whole.size() > 5);
            std::vector<int> every_frame;
            for (int i = 1; i < 50; ++i) every_frame.push_back(i);
            CHECK(search(head, projected, every_frame, options) == whole);
            for (int i = 0; i < 20; ++i) CHECK(search(head, projected, random_cuts(50, generator), options) == whole);
        }
    }
}

TEST_CASE("streams advanced together find what each finds alone") {
    std::mt19937 generator(8);
    for (const HeadSize& size : kinds()) {
        const RandomHead random(size);
        Head head(random.weights, executor());
        const int width = random.weights.frame_width();
        struct Stream {
            std::vector<float> projected;
            std::vector<Token> alone, together;
            Search search;
            int heard = 0, count = 0;
        };
        std::vector<Stream> streams;
        for (unsigned i = 0; i < 7; ++i) {
            const int count = 20 + static_cast<int>(5 * i);
            const std::vector<float> frames = random.frames(count, i);
            const std::vector<SearchOptions> choices = all_options(random);
            const SearchOptions& options = choices[i % choices.size()];
            std::vector<float> projected = head.project(frames.data(), count);
            std::vector<Token> alone = search(head, projected, {}, options);
            streams.push_back({std::move(projected), std::move(alone), {}, Search(random.weights, options), 0, count});
        }
        const auto take = [](Stream& stream) {
            for (const Token& token : stream.search.take_committed()) stream.together.push_back(token);
        };
        bool more = true;
        while (more) {
            std::vector<SearchStep> steps;
            more = false;
            for (Stream& stream : streams) {
                const int count = std::min(stream.count - stream.heard, static_cast<int>(generator() % 9));
                steps.push_back({&stream.search, stream.projected.data() + stream.heard * width, count});
                stream.heard += count;
                more = more || stream.heard < stream.count;
            }
            advance(head, steps);
            for (Stream& stream : streams) take(stream);
        }
        for (Stream& stream : streams) {
            stream.search.finish();
            take(stream);
            CHECK(stream.together == stream.alone);
        }
    }
}

TEST_CASE("a copy looks ahead, the search itself stays where it is") {
    for (const HeadSize& size : kinds()) {
        const RandomHead random(size);
        Head head(random.weights, executor());
        const std::vector<float> frames = random.frames(40, 2);
        const std::vector<float> projected = head.project(frames.data(), 40);
        const int width = random.weights.frame_width();
        for (const SearchOptions& options : all_options(random)) {
            Search search_(random.weights, options);
            std::vector<Token> tokens;
            for (int begin = 0; begin < 40; begin += 10) {
                advance(head, {{&search_, projected.data() + begin * width, 10}});
                Search ahead = search_;
                advance(head, {{&ahead, projected.data() + (begin + 10) % 40 * width, 10}});
                for (const Token& token : search_.take_committed()) tokens.push_back(token);
            }
            search_.finish();
            for (const Token& token : search_.take_committed()) tokens.push_back(token);
            CHECK(tokens == search(head, projected, {}, options));
        }
    }
}

TEST_CASE("a favoured phrase is found where it was close, and one that breaks off leaves no trace") {
    for (const HeadSize& size : kinds()) {
        if (size.ctc) continue;
        const RandomHead random(size);
        Head head(random.weights, executor());
        const std::vector<float> frames = random.frames(60, 3);
        const std::vector<float> projected = head.project(frames.data(), 60);
        for (const int beam : {1, 4}) {
            CAPTURE(beam);
            const auto count = [&](const std::string& phrase, int id, float bonus) {
                int found = 0;
                const auto tokens = search(head, projected, {}, {beam, favouring(random, {phrase}, bonus)});
                for (const Token& token : tokens) found += token.id == id;
                return found;
            };
            int gained = 0;
            for (int id = 0; id < random.weights.tokens; ++id) {
                const std::string word = "w" + std::to_string(id);
                gained += count(word, id, 3) - count(word, id, 0);
            }
            CHECK(gained > random.weights.tokens / 4);
            CHECK(search(head, projected, {}, {beam, favouring(random, {"w0 w1 w2"}, 0)}) ==
                  search(head, projected, {}, {beam, nullptr}));
        }
    }
}

TEST_CASE("a beam's tokens are committed in time") {
    const RandomHead random;
    Head head(random.weights, executor());
    const std::vector<float> frames = random.frames(200, 6);
    const std::vector<float> projected = head.project(frames.data(), 200);
    const int width = random.weights.frame_width();
    Search whole(random.weights, {4, nullptr});
    size_t committed = 0;
    for (int frame = 0; frame < 200; ++frame) {
        advance(head, {{&whole, projected.data() + frame * width, 1}});
        committed += whole.take_committed().size();
        for (const Token& token : whole.tentative()) CHECK(frame - token.frame <= Beam::kPatience + 4);
    }
    CHECK(committed > 20);
}

TEST_CASE("an aborted advance changes no search") {
    const RandomHead random;
    Executor own(1);
    Head head(random.weights, own);
    const std::vector<float> frames = random.frames(30, 2);
    const std::vector<float> projected = head.project(frames.data(), 30);
    for (const int beam : {1, 4}) {
        const std::vector<Token> whole = search(head, projected, {}, {beam, nullptr});
        Search search_(random.weights, {beam, nullptr});
        int left = 40;
        own.set_should_stop([&] { return --left < 0; });
        CHECK_THROWS_AS(advance(head, {{&search_, projected.data(), 30}}), Aborted);
        own.set_should_stop(nullptr);
        CHECK(search_.take_committed().empty());
        advance(head, {{&search_, projected.data(), 30}});
        search_.finish();
        CHECK(search_.take_committed() == whole);
    }
}

TEST_CASE("options that cannot be used are refused") {
    const RandomHead random;
    CHECK_THROWS_AS(Search(random.weights, {0, nullptr}), BadArgument);
    CHECK_THROWS_AS(Search(random.weights, {17, nullptr}), BadArgument);
    HeadSize size;
    size.ctc = true;
    CHECK_THROWS_AS(Search(RandomHead(size).weights, {2, nullptr}), BadArgument);
}
