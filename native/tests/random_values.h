#pragma once

#include <random>
#include <vector>

/// Numbers with mean 0 and deviation 1, always the same.
inline std::vector<float> random_values(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
}
