#include "whisper/alignment.h"

#include <doctest/doctest.h>

#include "errors.h"
#include "fixture.h"

using namespace stenod::tests;
using stenod::whisper::token_times;
using stenod::whisper::TokenTime;

namespace {

std::vector<float> starts(const std::vector<TokenTime>& times) {
    std::vector<float> out;
    for (const TokenTime& time : times) out.push_back(time.start);
    return out;
}

}  // namespace

TEST_CASE("tokens start where the reference says") {
    const auto cases = golden_lists("alignment.shapes");  // heads, rows, frames, row_stride
    for (size_t i = 0; i < cases.size(); ++i) {
        const auto size = [&](size_t k) { return static_cast<size_t>(cases[i][k]); };
        CAPTURE(i);
        const std::vector<float> weights = golden_tensor("alignment.weights." + std::to_string(i));
        const auto times = token_times({weights.data(), size(0), size(1), size(2), size(3)});
        CHECK(greatest_difference(starts(times), golden_tensor("alignment.starts." + std::to_string(i))) < 1e-5);
        for (size_t row = 0; row + 1 < times.size(); ++row) CHECK(times[row].end == times[row + 1].start);
        CHECK(times.back().end == doctest::Approx(cases[i][2] * 0.02));
    }
}

TEST_CASE("the shortest inputs are no special case for the caller") {
    const std::vector<float> weights(64, 0.25f);
    for (size_t rows = 1; rows <= 4; ++rows)
        for (size_t frames = 1; frames <= 8; ++frames) {
            const auto times = token_times({weights.data(), 2, rows, frames, 8});
            REQUIRE(times.size() == rows);
            CHECK(times.front().start == 0.0f);
            CHECK(times.back().end == doctest::Approx(0.02 * static_cast<double>(frames)));
        }
    CHECK(token_times({weights.data(), 2, 0, 8, 8}).empty());
    CHECK(token_times({weights.data(), 2, 3, 0, 8}).back().end == 0.0f);
}

TEST_CASE("views that make no sense are refused") {
    const std::vector<float> weights(8);
    CHECK_THROWS_AS(token_times({weights.data(), 0, 1, 1, 1}), stenod::BadArgument);
    CHECK_THROWS_AS(token_times({weights.data(), 1, 1, 4, 3}), stenod::BadArgument);
}
