#include "graph/softmax.h"

#include "graph/vectorised.h"
#include "model/scores.h"

namespace stenod {

STENOD_VECTORISED
float exponentials(float* scores, int64_t count, float scale) {
    constexpr int64_t strands = 16;
    const float greatest = maximum(scores, static_cast<size_t>(count));
    float sums[strands] = {};
    for (int64_t i = 0; i < count; ++i) scores[i] = exponential((scores[i] - greatest) * scale);
    const int64_t whole = count - count % strands;
    for (int64_t i = 0; i < whole; i += strands) {
        for (int64_t j = 0; j < strands; ++j) sums[j] += scores[i + j];
    }
    for (int64_t i = whole; i < count; ++i) sums[i - whole] += scores[i];
    float total = 0;
    for (float sum : sums) total += sum;
    return total;
}

}  // namespace stenod
