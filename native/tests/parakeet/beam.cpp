#include "parakeet/beam.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "random_head.h"
#include "reference.h"

using namespace stenod;
using namespace stenod::parakeet;
using namespace stenod::tests;

namespace {

/// All ways through the frames, one after the other.
class Enumeration {
public:
    Enumeration(const RandomHead& random, const std::vector<float>& frames)
        : weights_(random.weights), reference_(random.weights), frames_(frames),
          count_(static_cast<int>(frames.size()) / random.weights.encoder_width) {
        go(0, 0, {}, reference_.start(), 0);
    }

    using Sequence = std::vector<int>;

    /// The probability of a sequence, over all its alignments.
    std::map<Sequence, double> sums;
    /// That of its best alignment.
    std::map<Sequence, double> greatest;

    static std::pair<Sequence, double> best(const std::map<Sequence, double>& of) {
        return *std::max_element(of.begin(), of.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    }

private:
    void go(int frame, int symbols, const Sequence& sequence, const ReferenceHead::State& state, double logprob) {
        if (frame >= count_) {
            sums[sequence] += std::exp(logprob);
            greatest[sequence] = std::max(greatest[sequence], std::exp(logprob));
            return;
        }
        const std::vector<double> logits = reference_.logits(state, frames_.data() + frame * weights_.encoder_width);
        const std::vector<double> tokens = log_softmax(logits.data(), weights_.tokens + 1);
        std::vector<double> durations =
            log_softmax(logits.data() + weights_.tokens + 1, weights_.durations.size());
        if (durations.empty()) durations = {0};
        for (int token = 0; token <= weights_.tokens; ++token) {
            const bool blank = token == weights_.blank();
            Sequence longer = sequence;
            if (!blank) longer.push_back(token);
            const ReferenceHead::State next = blank ? state : reference_.after(state, token);
            for (size_t i = 0; i < durations.size(); ++i) {
                const int duration = weights_.durations.empty() ? 0 : weights_.durations[i];
                int jump = blank ? std::max(1, duration) : duration, found = jump > 0 ? 0 : symbols + 1;
                if (found == weights_.max_symbols) {
                    ++jump;
                    found = 0;
                }
                go(frame + jump, found, longer, next, logprob + tokens[token] + durations[i]);
            }
        }
    }

    const HeadWeights& weights_;
    ReferenceHead reference_;
    const std::vector<float>& frames_;
    int count_;
};

std::vector<int> search(Head& head, const std::vector<float>& projected, Beam beam) {
    beam.feed(projected.data(), static_cast<int>(projected.size()) / head.weights().frame_width());
    while (true) {
        std::vector<Query*> queries;
        beam.ask(queries);
        if (queries.empty()) break;
        head.answer(queries);
        beam.take();
    }
    beam.finish();
    std::vector<int> tokens;
    for (const Token& token : beam.committed) tokens.push_back(token.id);
    return tokens;
}

}  // namespace

TEST_CASE("a beam that keeps everything finds the most probable sequence of all") {
    HeadSize tdt;
    tdt.tokens = 2;
    tdt.durations = {0, 1, 2};
    tdt.layers = 1;
    tdt.max_symbols = 2;
    tdt.hidden = tdt.joint_width = tdt.encoder_width = 16;
    tdt.blank_bias = 0.5f;
    HeadSize rnnt = tdt;
    rnnt.durations = {};
    int cases = 0, not_the_best_alignment = 0, not_greedy = 0, narrow_right = 0;
    for (const auto& [size, frame_count] : {std::pair(tdt, 4), std::pair(rnnt, 5)}) {
        for (unsigned seed = 1; seed <= 15; ++seed) {
            const RandomHead random(size, seed);
            Head head(random.weights, executor());
            const std::vector<float> frames = random.frames(frame_count, seed);
            const std::vector<float> projected = head.project(frames.data(), frame_count);
            const Enumeration all(random, frames);
            double total = 0;
            for (const auto& [sequence, probability] : all.sums) total += probability;
            REQUIRE(total == doctest::Approx(1));
            const auto best = Enumeration::best(all.sums).first;
            CAPTURE(seed);
            CHECK(search(head, projected, Beam(random.weights, 100000, nullptr, 1e9f, 1000)) == best);
            ++cases;
            narrow_right += search(head, projected, Beam(random.weights, 4)) == best;
            not_greedy += search(head, projected, Beam(random.weights, 1)) != best;
            not_the_best_alignment += Enumeration::best(all.greatest).first != best;
        }
    }
    // The cases are hard enough to tell a sum from a maximum, and a beam from none; and a narrow beam is worth its price.
    CHECK(not_the_best_alignment > cases / 12);
    CHECK(not_greedy > cases / 12);
    CHECK(narrow_right > cases - not_greedy);
}

TEST_CASE("where hypotheses disagree for long, the best one is right, and the others that say otherwise go") {
    HeadSize size;
    size.blank_bias = 6;  // few tokens: an old disagreement would last
    const RandomHead random(size);
    Head head(random.weights, executor());
    const std::vector<float> frames = random.frames(300, 1);
    const std::vector<float> projected = head.project(frames.data(), 300);
    Beam beam(random.weights, 8, nullptr, 1e9f, 5);
    for (int frame = 0; frame < 300; ++frame) {
        beam.feed(projected.data() + frame * random.weights.joint_width, 1);
        while (true) {
            std::vector<Query*> queries;
            beam.ask(queries);
            if (queries.empty()) break;
            head.answer(queries);
            beam.take();
        }
        for (const Token& token : beam.tentative()) CHECK(frame - token.frame < 5 + 4);
    }
    CHECK(beam.committed.size() > 5);
}
