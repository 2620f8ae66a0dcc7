#include "graph/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "graph/vectorised.h"
#include "model/scores.h"

namespace stenod {

namespace {

/// erf(x / sqrt 2) / x as a rational function of x^2, fitted to 1e-8 for |x| <= 5.4 (beyond, erf is 1 in f32).
inline float gelu_value(float x) {
    const float c = std::min(std::max(x, -5.4f), 5.4f);
    const float t = c * c;
    float p = 4.6773737e-8f;
    p = p * t + 1.2719963e-5f;
    p = p * t + 3.2863711e-4f;
    p = p * t + 9.3016647e-3f;
    p = p * t + 6.6743879e-2f;
    p = p * t + 7.9788449e-1f;
    float q = 1.2165920e-6f;
    q = q * t + 7.2399082e-5f;
    q = q * t + 1.8589640e-3f;
    q = q * t + 2.8378519e-2f;
    q = q * t + 2.5031714e-1f;
    q = q * t + 1.0f;
    return 0.5f * x * (1.0f + c * p / q);
}

STENOD_VECTORISED
void bias_gelu_row(float* out, const float* x, const float* bias, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = gelu_value(x[i] + bias[i]);
}

STENOD_VECTORISED
void gelu_row(float* out, const float* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = gelu_value(x[i]);
}

inline float sigmoid_value(float x) {
    const float e = exponential(-std::abs(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

STENOD_VECTORISED
void bias_silu_row(float* out, const float* x, const float* bias, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const float sum = x[i] + bias[i];
        out[i] = sum * sigmoid_value(sum);
    }
}

STENOD_VECTORISED
void bias_glu_row(float* out, const float* x, const float* bias, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] + bias[i]) * sigmoid_value(x[n + i] + bias[n + i]);
}

STENOD_VECTORISED
void bias_half_residual_row(float* out, const float* x, const float* bias, const float* residual, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = 0.5f * (x[i] + bias[i]) + residual[i];
}

STENOD_VECTORISED
void bias_residual_row(float* out, const float* x, const float* bias, const float* residual, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + bias[i] + residual[i];
}

STENOD_VECTORISED
void add_bias_row(float* out, const float* x, const float* bias, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + bias[i];
}

STENOD_VECTORISED
void layer_norm_row(float* out, const float* x, const float* weight, const float* bias, int64_t n) {
    // Sixteen partial sums: a fixed order of additions that the compiler can keep in registers.
    constexpr int64_t lanes = 16;
    float sums[lanes] = {}, squares[lanes] = {};
    float mean = 0, variance = 0;
    const int64_t whole = n - n % lanes;
    for (int64_t i = 0; i < whole; i += lanes) {
        for (int64_t j = 0; j < lanes; ++j) sums[j] += x[i + j];
    }
    for (int64_t i = whole; i < n; ++i) sums[i - whole] += x[i];
    for (float sum : sums) mean += sum;
    mean /= static_cast<float>(n);
    for (int64_t i = 0; i < whole; i += lanes) {
        for (int64_t j = 0; j < lanes; ++j) squares[j] += (x[i + j] - mean) * (x[i + j] - mean);
    }
    for (int64_t i = whole; i < n; ++i) squares[i - whole] += (x[i] - mean) * (x[i] - mean);
    for (float square : squares) variance += square;
    const float scale = 1.0f / std::sqrt(variance / static_cast<float>(n) + 1e-5f);
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

/// This thread's share of the rows.
template <typename Function>
void for_rows(const ggml_tensor* tensor, int thread, int threads, Function function) {
    const int64_t rows = ggml_nrows(tensor);
    const int64_t first = rows * thread / threads, end = rows * (thread + 1) / threads;
    for (int64_t i = first; i < end; ++i) function(i);
}

void compute_layer_norm(ggml_tensor* out, const ggml_tensor* x, const ggml_tensor* weight, const ggml_tensor* bias,
                        int thread, int threads, void*) {
    for_rows(x, thread, threads, [&](int64_t i) {
        layer_norm_row(row(out, i), row(x, i), row(weight, 0), row(bias, 0), x->ne[0]);
    });
}

void compute_bias_gelu(ggml_tensor* out, const ggml_tensor* x, const ggml_tensor* bias, int thread, int threads,
                       void*) {
    for_rows(x, thread, threads,
             [&](int64_t i) { bias_gelu_row(row(out, i), row(x, i), row(bias, 0), x->ne[0]); });
}

void compute_gelu(ggml_tensor* out, const ggml_tensor* x, int thread, int threads, void*) {
    for_rows(x, thread, threads, [&](int64_t i) { gelu_row(row(out, i), row(x, i), x->ne[0]); });
}

void compute_bias_silu(ggml_tensor* out, const ggml_tensor* x, const ggml_tensor* bias, int thread, int threads,
                       void*) {
    for_rows(x, thread, threads,
             [&](int64_t i) { bias_silu_row(row(out, i), row(x, i), row(bias, 0), x->ne[0]); });
}

void compute_bias_glu(ggml_tensor* out, int thread, int threads, void*) {
    for_rows(out, thread, threads,
             [&](int64_t i) { bias_glu_row(row(out, i), row(out->src[0], i), row(out->src[1], 0), out->ne[0]); });
}

void compute_bias_half_residual(ggml_tensor* out, const ggml_tensor* x, const ggml_tensor* bias,
                                const ggml_tensor* residual, int thread, int threads, void*) {
    for_rows(x, thread, threads, [&](int64_t i) {
        bias_half_residual_row(row(out, i), row(x, i), row(bias, 0), row(residual, i), x->ne[0]);
    });
}

void compute_add_bias(ggml_tensor* out, const ggml_tensor* x, const ggml_tensor* bias, int thread, int threads,
                      void*) {
    for_rows(x, thread, threads,
             [&](int64_t i) { add_bias_row(row(out, i), row(x, i), row(bias, 0), x->ne[0]); });
}

void compute_bias_residual(ggml_tensor* out, const ggml_tensor* x, const ggml_tensor* bias,
                           const ggml_tensor* residual, int thread, int threads, void*) {
    for_rows(x, thread, threads, [&](int64_t i) {
        bias_residual_row(row(out, i), row(x, i), row(bias, 0), row(residual, i), x->ne[0]);
    });
}

}  // namespace

ggml_tensor* layer_norm(ggml_context* context, ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias) {
    return ggml_map_custom3(context, x, weight, bias, compute_layer_norm, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* bias_gelu(ggml_context* context, ggml_tensor* x, ggml_tensor* bias) {
    return ggml_map_custom2_inplace(context, x, bias, compute_bias_gelu, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* gelu(ggml_context* context, ggml_tensor* x) {
    return ggml_map_custom1_inplace(context, x, compute_gelu, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* bias_silu(ggml_context* context, ggml_tensor* x, ggml_tensor* bias) {
    return ggml_map_custom2_inplace(context, x, bias, compute_bias_silu, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* bias_glu(ggml_context* context, ggml_tensor* x, ggml_tensor* bias) {
    ggml_tensor* arguments[] = {x, bias};
    return ggml_custom_4d(context, GGML_TYPE_F32, x->ne[0] / 2, x->ne[1], 1, 1, arguments, 2, compute_bias_glu,
                          GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* bias_half_residual(ggml_context* context, ggml_tensor* x, ggml_tensor* bias, ggml_tensor* residual) {
    return ggml_map_custom3_inplace(context, x, bias, residual, compute_bias_half_residual, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* bias_residual(ggml_context* context, ggml_tensor* x, ggml_tensor* bias, ggml_tensor* residual) {
    return ggml_map_custom3_inplace(context, x, bias, residual, compute_bias_residual, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* add_bias(ggml_context* context, ggml_tensor* x, ggml_tensor* bias) {
    return ggml_map_custom2_inplace(context, x, bias, compute_add_bias, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace stenod
