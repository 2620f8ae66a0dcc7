#include "graph/cached_attention.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "graph/processor.h"
#include "graph/softmax.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace stenod {

#ifdef __x86_64__

namespace {

constexpr int64_t kWidth = 64;  // of a head, in every Whisper

/// Rows of one head's keys or values; `stride` in values.
struct Cells {
    const ggml_fp16_t* first;
    int64_t stride, count;
};

constexpr __mmask16 kAll = 0xffff;  // without a mask, GCC 12 warns of its own header

STENOD_AVX512 inline __m512 halves_avx512(const ggml_fp16_t* at) {
    return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

STENOD_AVX512 void score_avx512(const float* query, const Cells& keys, float* scores) {
    __m512 parts[4];
    for (int i = 0; i < 4; ++i) parts[i] = _mm512_loadu_ps(query + 16 * i);
    for (int64_t cell = 0; cell < keys.count; ++cell) {
        const ggml_fp16_t* key = keys.first + cell * keys.stride;
        __m512 sum = _mm512_mul_ps(parts[0], halves_avx512(key));
        __m512 other = _mm512_mul_ps(parts[1], halves_avx512(key + 16));
        sum = _mm512_fmadd_ps(parts[2], halves_avx512(key + 32), sum);
        other = _mm512_fmadd_ps(parts[3], halves_avx512(key + 48), other);
        alignas(64) float lanes[16];
        _mm512_store_ps(lanes, _mm512_add_ps(sum, other));
        __m256 half = _mm256_add_ps(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
        __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
        quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
        scores[cell] = _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
    }
}

STENOD_AVX512 void weigh_avx512(const float* weights, const Cells& values, float factor, float* out) {
    __m512 sums[4];
    for (auto& sum : sums) sum = _mm512_setzero_ps();
    for (int64_t cell = 0; cell < values.count; ++cell) {
        const ggml_fp16_t* value = values.first + cell * values.stride;
        const __m512 weight = _mm512_set1_ps(weights[cell]);
        for (int i = 0; i < 4; ++i) sums[i] = _mm512_fmadd_ps(weight, halves_avx512(value + 16 * i), sums[i]);
    }
    for (int i = 0; i < 4; ++i) _mm512_storeu_ps(out + 16 * i, _mm512_mul_ps(sums[i], _mm512_set1_ps(factor)));
}

STENOD_AVX2 inline __m256 halves_avx2(const ggml_fp16_t* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

STENOD_AVX2 void score_avx2(const float* query, const Cells& keys, float* scores) {
    __m256 parts[8];
    for (int i = 0; i < 8; ++i) parts[i] = _mm256_loadu_ps(query + 8 * i);
    for (int64_t cell = 0; cell < keys.count; ++cell) {
        const ggml_fp16_t* key = keys.first + cell * keys.stride;
        __m256 sum = _mm256_mul_ps(parts[0], halves_avx2(key)), other = _mm256_mul_ps(parts[1], halves_avx2(key + 8));
        for (int i = 2; i < 8; i += 2) {
            sum = _mm256_fmadd_ps(parts[i], halves_avx2(key + 8 * i), sum);
            other = _mm256_fmadd_ps(parts[i + 1], halves_avx2(key + 8 * i + 8), other);
        }
        sum = _mm256_add_ps(sum, other);
        __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
        quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
        scores[cell] = _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
    }
}

STENOD_AVX2 void weigh_avx2(const float* weights, const Cells& values, float factor, float* out) {
    __m256 sums[8];
    for (auto& sum : sums) sum = _mm256_setzero_ps();
    for (int64_t cell = 0; cell < values.count; ++cell) {
        const ggml_fp16_t* value = values.first + cell * values.stride;
        const __m256 weight = _mm256_set1_ps(weights[cell]);
        for (int i = 0; i < 8; ++i) sums[i] = _mm256_fmadd_ps(weight, halves_avx2(value + 8 * i), sums[i]);
    }
    for (int i = 0; i < 8; ++i) _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(sums[i], _mm256_set1_ps(factor)));
}

struct Kernels {
    void (*score)(const float* query, const Cells& keys, float* scores) = nullptr;
    void (*weigh)(const float* weights, const Cells& values, float factor, float* out) = nullptr;
};

Kernels choose_kernels() {
    if (instructions() == Instructions::avx512) {
        return {score_avx512, weigh_avx512};
    }
    if (instructions() == Instructions::avx2) {
        return {score_avx2, weigh_avx2};
    }
    return {};
}

const Kernels& kernels() {
    static const Kernels chosen = choose_kernels();
    return chosen;
}

Cells cells_of(const ggml_tensor* cache, int64_t head) {
    const auto* first = reinterpret_cast<const ggml_fp16_t*>(static_cast<const char*>(cache->data) + head * cache->nb[2]);
    return {first, static_cast<int64_t>(cache->nb[1] / sizeof(ggml_fp16_t)), cache->ne[1]};
}

/// Each thread takes some rows of some heads.
void compute(ggml_tensor* out, int thread, int threads, void*) {
    const ggml_tensor *query = out->src[0], *mask = out->src[3];
    const int64_t rows = query->ne[1], count = rows * query->ne[2];
    const float scale = 1.0f / std::sqrt(static_cast<float>(kWidth));
    thread_local std::vector<float> scores;
    for (int64_t item = count * thread / threads; item < count * (thread + 1) / threads; ++item) {
        const int64_t head = item / rows, row = item % rows;
        const Cells keys = cells_of(out->src[1], head);
        scores.resize(static_cast<size_t>(keys.count));
        const char* at = static_cast<const char*>(query->data) + row * query->nb[1] + head * query->nb[2];
        kernels().score(reinterpret_cast<const float*>(at), keys, scores.data());
        if (mask) {
            const char* row_of_mask = static_cast<const char*>(mask->data) + row * mask->nb[1];
            const auto* hidden = reinterpret_cast<const ggml_fp16_t*>(row_of_mask);
            for (int64_t i = 0; i < keys.count; ++i) {
                if (hidden[i] != 0) scores[static_cast<size_t>(i)] = -std::numeric_limits<float>::infinity();
            }
        }
        const float total = exponentials(scores.data(), keys.count, scale);
        float* to = reinterpret_cast<float*>(static_cast<char*>(out->data) + row * out->nb[1]) + head * kWidth;
        kernels().weigh(scores.data(), cells_of(out->src[2], head), 1.0f / total, to);
    }
}

}  // namespace

ggml_tensor* attend_to_cache(ggml_context* context, ggml_tensor* query, ggml_tensor* keys, ggml_tensor* values,
                             ggml_tensor* mask) {
    if (!kernels().score || query->ne[0] != kWidth || keys->type != GGML_TYPE_F16) return nullptr;
    ggml_tensor* arguments[] = {query, keys, values, mask};
    return ggml_custom_4d(context, GGML_TYPE_F32, kWidth * query->ne[2], query->ne[1], 1, 1, arguments, mask ? 4 : 3, compute,
                          GGML_N_TASKS_MAX, nullptr);
}

#else

ggml_tensor* attend_to_cache(ggml_context*, ggml_tensor*, ggml_tensor*, ggml_tensor*, ggml_tensor*) { return nullptr; }

#endif

}  // namespace stenod
