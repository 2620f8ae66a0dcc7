#include "parakeet/lstm.h"

#include <cmath>
#include <cstdint>

#include "graph/ops.h"
#include "graph/vectorised.h"
#include "model/scores.h"

namespace stenod::parakeet {

namespace {

inline float sigmoid(float x) {
    const float e = exponential(-std::abs(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

inline float hyperbolic_tangent(float x) {
    const float e = exponential(-2.0f * std::abs(x));
    return std::copysign((1.0f - e) / (1.0f + e), x);
}

/// One column; x and h lead to the gates i, f, g, o. Without the promise that the results overlap nothing else, the compiler
/// gives up on vectors.
STENOD_VECTORISED
void step(float* __restrict h_out, float* __restrict c_out, const float* x, const float* h, const float* bias,
          const float* c, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const float in = sigmoid(x[i] + h[i] + bias[i]);
        const float forget = sigmoid(x[n + i] + h[n + i] + bias[n + i]);
        const float candidate = hyperbolic_tangent(x[2 * n + i] + h[2 * n + i] + bias[2 * n + i]);
        const float out = sigmoid(x[3 * n + i] + h[3 * n + i] + bias[3 * n + i]);
        const float cell = forget * c[i] + in * candidate;
        c_out[i] = cell;
        h_out[i] = out * hyperbolic_tangent(cell);
    }
}

void compute(ggml_tensor* out, int thread, int threads, void*) {
    const ggml_tensor* cell = out->src[3];
    const int64_t columns = cell->ne[1];
    for (int64_t i = columns * thread / threads; i < columns * (thread + 1) / threads; ++i) {
        step(row(out, i), row(out, columns + i), row(out->src[0], i), row(out->src[1], i),
             row(out->src[2], 0), row(cell, i), cell->ne[0]);
    }
}

}  // namespace

ggml_tensor* lstm_cell(ggml_context* context, ggml_tensor* from_input, ggml_tensor* from_hidden, ggml_tensor* bias,
                       ggml_tensor* cell) {
    ggml_tensor* arguments[] = {from_input, from_hidden, bias, cell};
    return ggml_custom_4d(context, GGML_TYPE_F32, cell->ne[0], 2 * cell->ne[1], 1, 1, arguments, 4, compute,
                          GGML_N_TASKS_MAX, nullptr);
}

}  // namespace stenod::parakeet
