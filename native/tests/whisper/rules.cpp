#include "whisper/rules.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "errors.h"
#include "fixture.h"

using namespace stenod;
using namespace stenod::tests;
using namespace stenod::whisper;

namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

LogitRules::Options golden_options() {
    LogitRules::Options options;
    options.vocab_size = golden().u32("rules.vocab_size");
    options.eot = static_cast<TokenId>(golden().u32("rules.eot"));
    options.timestamp_begin = static_cast<TokenId>(golden().u32("rules.timestamp_begin"));
    options.suppress = golden().i32_array("rules.suppress");
    options.begin_suppress = golden().i32_array("rules.begin_suppress");
    return options;
}

}  // namespace

TEST_CASE("the same tokens are forbidden as by the reference") {
    const LogitRules rules(golden_options());
    const size_t vocab_size = golden_options().vocab_size;
    std::vector<float> logits = golden_tensor("rules.logits");
    const std::vector<float> expected = golden_tensor("rules.expected");
    const auto sampled = golden_lists("rules.sampled");
    REQUIRE(logits.size() == sampled.size() * vocab_size);
    for (size_t i = 0; i < sampled.size(); ++i) {
        CAPTURE(sampled[i]);
        rules.apply(&logits[i * vocab_size], sampled[i].data(), sampled[i].size());
        CHECK(std::equal(&logits[i * vocab_size], &logits[i * vocab_size] + vocab_size, &expected[i * vocab_size]));
    }
}

TEST_CASE("without timestamps none is ever chosen, nor a control token") {
    LogitRules::Options options = golden_options();
    options.timestamps = false;
    options.suppress = {5};
    options.begin_suppress = {6};
    std::vector<float> logits(options.vocab_size, 1.0f);
    const TokenId sampled[] = {7};
    LogitRules(options).apply(logits.data(), sampled, 1);
    for (size_t id = 0; id < logits.size(); ++id)
        CHECK(logits[id] == (id == 5 || id > static_cast<size_t>(options.eot) ? never : 1.0f));
}

TEST_CASE("the first timestamp may be as late as was asked, and the vocabulary allows") {
    LogitRules::Options options = golden_options();
    for (const auto& [seconds, last] : {std::pair{0.5, 25}, {0.0, 0}, {1e9, 79}}) {
        options.max_initial_timestamp = seconds;
        std::vector<float> logits(options.vocab_size, 1.0f);
        LogitRules(options).apply(logits.data(), nullptr, 0);
        const auto allowed = std::count(logits.begin() + options.timestamp_begin, logits.end(), 1.0f);
        CHECK(allowed == last + 1);
    }
}

TEST_CASE("ids outside the vocabulary are refused") {
    LogitRules::Options options = golden_options();
    options.suppress.push_back(static_cast<TokenId>(options.vocab_size));
    CHECK_THROWS_AS(LogitRules{options}, BadArgument);
    options = golden_options();
    options.begin_suppress.push_back(-1);
    CHECK_THROWS_AS(LogitRules{options}, BadArgument);
    options = golden_options();
    options.timestamp_begin = options.eot;
    CHECK_THROWS_AS(LogitRules{options}, BadArgument);
}

TEST_CASE("sampling follows the softmax at its temperature, and its seed") {
    const std::vector<float> logits = {1.0f, never, 2.0f, 0.0f, 3.0f};
    constexpr float temperature = 0.7f;
    constexpr int draws = 100000;
    std::vector<int> counts(logits.size());
    std::mt19937_64 random(1), twin(1);
    for (int i = 0; i < draws; ++i) {
        const size_t index = sample(logits.data(), logits.size(), temperature, random);
        CHECK_EQ(index, sample(logits.data(), logits.size(), temperature, twin));
        ++counts[index];
    }
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    for (size_t i = 0; i < logits.size(); ++i)
        CHECK(std::abs(counts[i] / static_cast<double>(draws) - std::exp(logits[i] / temperature) / sum) < 0.01);
    CHECK(counts[1] == 0);
}

TEST_CASE("the compression ratio is zlib's") {
    const std::vector<std::string>& texts = golden().string_array("rules.texts");
    const std::vector<float> expected = golden_tensor("rules.compression_ratios");
    for (size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(texts[i]);
        CHECK(compression_ratio(texts[i]) == doctest::Approx(expected[i]).epsilon(0.02));
    }
}
