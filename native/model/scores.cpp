#include "scores.h"

#include <array>
#include <limits>

namespace stenod {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

/// Reductions go in this many independent strands, which is what lets the compiler vectorise them.
constexpr size_t strands = 16;

}  // namespace

float maximum(const float* values, size_t count) {
    std::array<float, strands> greatest;
    greatest.fill(never);
    size_t i = 0;
    for (; i + strands <= count; i += strands)
        for (size_t strand = 0; strand < strands; ++strand)
            greatest[strand] = std::max(greatest[strand], values[i + strand]);
    for (; i < count; ++i) greatest[0] = std::max(greatest[0], values[i]);
    return *std::max_element(greatest.begin(), greatest.end());
}

size_t argmax(const float* values, size_t count) {
    const float* end = values + count;
    const float* place = std::find(values, end, maximum(values, count));
    return place == end ? 0 : static_cast<size_t>(place - values);
}

double sum_of_exponentials(const float* values, size_t count, float greatest, float factor) {
    constexpr size_t stretch = 64 * strands;  // summed in float, the stretches in double: neither slow nor inexact
    std::array<float, stretch> exponentials;
    double total = 0.0;
    for (size_t begin = 0; begin < count; begin += stretch) {
        const size_t length = std::min(stretch, count - begin);
        for (size_t i = 0; i < length; ++i) exponentials[i] = exponential((values[begin + i] - greatest) * factor);
        std::fill(exponentials.begin() + length, exponentials.end(), 0.0f);
        std::array<float, strands> sums{};
        for (size_t i = 0; i < stretch; i += strands)
            for (size_t strand = 0; strand < strands; ++strand) sums[strand] += exponentials[i + strand];
        for (const float sum : sums) total += sum;
    }
    return total;
}

float logsumexp(const float* values, size_t count) {
    const float greatest = maximum(values, count);
    if (greatest == never) return never;
    return greatest + static_cast<float>(std::log(sum_of_exponentials(values, count, greatest, 1.0f)));
}

}  // namespace stenod
