#include "model/scores.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace stenod;

namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("logsumexp is exact for any length and level") {
    for (const size_t count : {1, 15, 16, 17, 1023, 1025, 51865}) {
        std::mt19937 random(3);
        std::normal_distribution<float> normal(-40.0f, 5.0f);
        std::vector<float> values(count);
        for (float& value : values) value = normal(random);
        if (count > 16) values[3] = never;
        double sum = 0.0;
        for (const float value : values) sum += std::exp(static_cast<double>(value));
        CHECK(logsumexp(values.data(), count) == doctest::Approx(std::log(sum)).epsilon(1e-6));
    }
    const std::vector<float> nothing(20, never);
    CHECK(logsumexp(nothing.data(), nothing.size()) == never);
}

TEST_CASE("argmax takes the first of equals") {
    std::vector<float> values(100, -1.0f);
    CHECK(argmax(values.data(), values.size()) == 0);
    values[98] = values[40] = values[41] = 2.0f;
    CHECK(argmax(values.data(), values.size()) == 40);
    values.assign(100, std::numeric_limits<float>::quiet_NaN());
    CHECK(argmax(values.data(), values.size()) < values.size());
}
