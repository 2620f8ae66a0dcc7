#include "parakeet/transducer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "errors.h"
#include "random_head.h"
#include "reference.h"

using namespace stenod;
using namespace stenod::parakeet;
using namespace stenod::tests;

namespace {

constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0};

/// A query for one token after another, of which the last but one have been fed.
Query query_after(Head& head, const std::vector<int>& tokens, const float* frame) {
    Query query;
    query.frame = frame;
    for (int token : tokens) {
        query.token = token;
        head.answer({&query});
    }
    return query;
}

}  // namespace

TEST_CASE("predictor and joint agree with their definition") {
    for (const ggml_type type : kTypes) {
        CAPTURE(std::string(ggml_type_name(type)));
        const double tolerance = type == GGML_TYPE_F32 ? 1e-5 : type == GGML_TYPE_F16 ? 1e-2 : 0.3;
        HeadSize size;
        size.type = type;
        const RandomHead random(size);
        const ReferenceHead reference(random.weights);
        Head head(random.weights, executor());
        const std::vector<float> frames = random.frames(8, 5);
        const std::vector<float> projected = head.project(frames.data(), 8);
        Query query;
        query.token = random.weights.blank();
        ReferenceHead::State state = reference.start();
        for (int i = 0; i < 8; ++i) {
            query.frame = projected.data() + i * random.weights.joint_width;
            head.answer({&query});
            REQUIRE(query.token == Query::kNone);
            const auto expected = reference.logits(state, frames.data() + i * random.weights.encoder_width);
            for (size_t k = 0; k < expected.size(); ++k) CHECK(std::abs(query.logits[k] - expected[k]) < tolerance);
            if (i % 3 == 0) continue;  // the predictor stands still
            query.token = 7 * i % random.weights.tokens;
            state = reference.after(state, query.token);
        }
    }
}

TEST_CASE("answers do not depend on the company, nor on the place in it") {
    for (const ggml_type type : kTypes) {
        CAPTURE(std::string(ggml_type_name(type)));
        HeadSize size;
        size.type = type;
        const RandomHead random(size);
        Head head(random.weights, executor());
        constexpr int count = 2 * Head::kMostColumns + 3;
        const std::vector<float> frames = random.frames(count, 3);
        const std::vector<float> projected = head.project(frames.data(), count);
        std::vector<Query> start;
        std::vector<std::vector<float>> alone, states;
        for (int i = 0; i < count; ++i) {
            const float* frame = projected.data() + i * random.weights.joint_width;
            const std::vector<float> one = head.project(frames.data() + i * random.weights.encoder_width, 1);
            REQUIRE(std::equal(one.begin(), one.end(), frame));
            start.push_back(query_after(head, {random.weights.blank(), i % 5}, frame));
            if (i % 3 != 0) start.back().token = i % 7;
            Query query = start.back();
            head.answer({&query});
            alone.emplace_back(query.logits, query.logits + random.weights.outputs());
            states.push_back(query.state->memory);
        }
        for (int width = 1; width <= count; ++width) {
            std::vector<Query> queries(start.end() - width, start.end());
            std::vector<Query*> pointers;
            for (Query& query : queries) pointers.push_back(&query);
            head.answer(pointers);
            for (int i = 0; i < width; ++i) {
                const auto& expected = alone[count - width + i];
                REQUIRE(std::equal(expected.begin(), expected.end(), queries[i].logits));
                REQUIRE(queries[i].state->memory == states[count - width + i]);
            }
        }
    }
}

#ifndef __SANITIZE_THREAD__  // it cannot see the barriers of ggml, which is built without it
TEST_CASE("answers do not depend on the number of threads") {
    for (const ggml_type type : kTypes) {
        HeadSize size;
        size.type = type;
        const RandomHead random(size);
        Executor several(3);
        Head head(random.weights, executor()), other(random.weights, several);
        const std::vector<float> frames = random.frames(5, 3);
        const std::vector<float> projected = head.project(frames.data(), 5);
        REQUIRE(other.project(frames.data(), 5) == projected);
        for (int i = 0; i < 5; ++i) {
            const float* frame = projected.data() + i * random.weights.joint_width;
            const Query one = query_after(head, {random.weights.blank(), i, 4}, frame);
            const std::vector<float> logits(one.logits, one.logits + random.weights.outputs());
            const Query two = query_after(other, {random.weights.blank(), i, 4}, frame);
            CHECK(std::equal(logits.begin(), logits.end(), two.logits));
            CHECK(one.state->memory == two.state->memory);
        }
    }
}
#endif

TEST_CASE("an aborted pass leaves its queries as they were") {
    const RandomHead random;
    Executor own(1);
    Head head(random.weights, own);
    const std::vector<float> frame = random.frames(1, 1);
    Query query;
    query.token = random.weights.blank();
    query.frame = frame.data();
    own.set_should_stop([] { return true; });
    CHECK_THROWS_AS(head.answer({&query}), Aborted);
    CHECK(query.token == random.weights.blank());
    CHECK(!query.state);
    CHECK(!query.logits);
}
