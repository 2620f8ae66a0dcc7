#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stenod {

/// exp(x) for x <= 0, minus infinity included, with an error below 1e-6 of the value or 1e-37, in plain arithmetic that
/// vectorises.
inline float exponential(float x) {
    constexpr float least = -87.0f, log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    constexpr float round_to_integer = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const float bounded = std::max(x, least);
    const float shifted = bounded * log2_e + round_to_integer;
    const float power = shifted - round_to_integer;
    const float rest = (bounded - power * ln2_high) - power * ln2_low;
    // Spelled out: the compiler does not vectorise around a loop over coefficients.
    float series = rest * (1.0f / 720.0f) + 1.0f / 120.0f;
    series = series * rest + 1.0f / 24.0f;
    series = series * rest + 1.0f / 6.0f;
    series = series * rest + 0.5f;
    series = series * rest + 1.0f;
    series = series * rest + 1.0f;
    int32_t exponent;
    std::memcpy(&exponent, &shifted, sizeof exponent);
    const uint32_t scale_bits = (static_cast<uint32_t>(exponent) + 127u) << 23;
    float scale;
    std::memcpy(&scale, &scale_bits, sizeof scale);
    return series * scale;
}

/// The greatest value; minus infinity if there is none.
float maximum(const float* values, size_t count);

/// Index of the greatest value, the first of equals.
size_t argmax(const float* values, size_t count);

/// Sum of exp((value - greatest) * factor), where `greatest` is the greatest value.
double sum_of_exponentials(const float* values, size_t count, float greatest, float factor);

/// log(sum(exp(x))), minus infinity if all are.
float logsumexp(const float* values, size_t count);

}  // namespace stenod
