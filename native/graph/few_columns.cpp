#include "graph/few_columns.h"

#include "graph/processor.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace stenod {

#ifdef __x86_64__

namespace {

// No templates over the width of the registers: each function has to name its own instruction set.
constexpr __mmask16 kAll = 0xffff;  // without a mask, GCC 12 warns of its own header

template <int kColumns>
STENOD_AVX512 void halves_avx512(const void* panel, int64_t in, const Strip& strip, int64_t column) {
    const auto* weights = static_cast<const uint16_t*>(panel);
    const float* x = strip.x + column * strip.x_stride;
    __m512 sums[kColumns][2];
    for (auto& sum : sums) sum[0] = sum[1] = _mm512_setzero_ps();
    for (int64_t i = 0; i < in; ++i) {
        const auto* at = reinterpret_cast<const __m256i*>(weights + i * kPanelRows);
        const __m512 first = _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(at));
        const __m512 second = _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(at + 1));
        for (int c = 0; c < kColumns; ++c) {
            const __m512 value = _mm512_set1_ps(x[c * strip.x_stride + i]);
            sums[c][0] = _mm512_fmadd_ps(first, value, sums[c][0]);
            sums[c][1] = _mm512_fmadd_ps(second, value, sums[c][1]);
        }
    }
    for (int c = 0; c < kColumns; ++c) {
        float* out = strip.out + (column + c) * strip.out_stride;
        _mm512_storeu_ps(out, sums[c][0]);
        _mm512_storeu_ps(out + 16, sums[c][1]);
    }
}

template <int kColumns>
STENOD_AVX512 void bytes_avx512(const void* panel, int64_t in, const Strip& strip, int64_t column) {
    const auto* block = static_cast<const PanelBlock*>(panel);
    const float* x = strip.x + column * strip.x_stride;
    __m512 sums[kColumns][2];
    for (auto& sum : sums) sum[0] = sum[1] = _mm512_setzero_ps();
    for (int64_t begin = 0; begin < in; begin += PanelBlock::kBlock, ++block) {
        const auto* scales = reinterpret_cast<const __m256i*>(block->scales);
        const __m512 scale[2] = {_mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(scales)),
                                 _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(scales + 1))};
        for (int64_t i = 0; i < PanelBlock::kBlock; ++i) {
            const auto* at = reinterpret_cast<const __m128i*>(block->values + i * kPanelRows);
            __m512 weights[2];
            for (int half = 0; half < 2; ++half) {
                const __m512i wide = _mm512_maskz_cvtepi8_epi32(kAll, _mm_loadu_si128(at + half));
                weights[half] = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, wide), scale[half]);
            }
            for (int c = 0; c < kColumns; ++c) {
                const __m512 value = _mm512_set1_ps(x[c * strip.x_stride + begin + i]);
                sums[c][0] = _mm512_fmadd_ps(weights[0], value, sums[c][0]);
                sums[c][1] = _mm512_fmadd_ps(weights[1], value, sums[c][1]);
            }
        }
    }
    for (int c = 0; c < kColumns; ++c) {
        float* out = strip.out + (column + c) * strip.out_stride;
        _mm512_storeu_ps(out, sums[c][0]);
        _mm512_storeu_ps(out + 16, sums[c][1]);
    }
}

constexpr int64_t kHalf = kPanelRows / 2;  // rows for whose sums AVX2 has the registers

template <int kColumns>
STENOD_AVX2 void halves_avx2(const void* panel, int64_t in, const Strip& strip, int64_t column) {
    const float* x = strip.x + column * strip.x_stride;
    for (int64_t row = 0; row < kPanelRows; row += kHalf) {
        const auto* weights = static_cast<const uint16_t*>(panel) + row;
        __m256 sums[kColumns][2];
        for (auto& sum : sums) sum[0] = sum[1] = _mm256_setzero_ps();
        for (int64_t i = 0; i < in; ++i) {
            const auto* at = reinterpret_cast<const __m128i*>(weights + i * kPanelRows);
            const __m256 first = _mm256_cvtph_ps(_mm_loadu_si128(at)), second = _mm256_cvtph_ps(_mm_loadu_si128(at + 1));
            for (int c = 0; c < kColumns; ++c) {
                const __m256 value = _mm256_set1_ps(x[c * strip.x_stride + i]);
                sums[c][0] = _mm256_fmadd_ps(first, value, sums[c][0]);
                sums[c][1] = _mm256_fmadd_ps(second, value, sums[c][1]);
            }
        }
        for (int c = 0; c < kColumns; ++c) {
            float* out = strip.out + (column + c) * strip.out_stride + row;
            _mm256_storeu_ps(out, sums[c][0]);
            _mm256_storeu_ps(out + 8, sums[c][1]);
        }
    }
}

template <int kColumns>
STENOD_AVX2 void bytes_avx2(const void* panel, int64_t in, const Strip& strip, int64_t column) {
    const float* x = strip.x + column * strip.x_stride;
    for (int64_t row = 0; row < kPanelRows; row += kHalf) {
        const auto* block = static_cast<const PanelBlock*>(panel);
        __m256 sums[kColumns][2];
        for (auto& sum : sums) sum[0] = sum[1] = _mm256_setzero_ps();
        for (int64_t begin = 0; begin < in; begin += PanelBlock::kBlock, ++block) {
            const auto* scales = reinterpret_cast<const __m128i*>(block->scales + row);
            const __m256 scale[2] = {_mm256_cvtph_ps(_mm_loadu_si128(scales)), _mm256_cvtph_ps(_mm_loadu_si128(scales + 1))};
            for (int64_t i = 0; i < PanelBlock::kBlock; ++i) {
                const __m128i at = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block->values + i * kPanelRows + row));
                const __m256 first = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(at));
                const __m256 second = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(at, at)));
                const __m256 weights[2] = {_mm256_mul_ps(first, scale[0]), _mm256_mul_ps(second, scale[1])};
                for (int c = 0; c < kColumns; ++c) {
                    const __m256 value = _mm256_set1_ps(x[c * strip.x_stride + begin + i]);
                    sums[c][0] = _mm256_fmadd_ps(weights[0], value, sums[c][0]);
                    sums[c][1] = _mm256_fmadd_ps(weights[1], value, sums[c][1]);
                }
            }
        }
        for (int c = 0; c < kColumns; ++c) {
            float* out = strip.out + (column + c) * strip.out_stride + row;
            _mm256_storeu_ps(out, sums[c][0]);
            _mm256_storeu_ps(out + 8, sums[c][1]);
        }
    }
}

using Columns = void (*)(const void* panel, int64_t in, const Strip& strip, int64_t column);

/// A strip, kMost columns at a time.
template <Columns kOne, Columns kTwo, Columns kThree, Columns kFour>
void strip_product(const void* panel, int64_t in, const Strip& strip) {
    for (int64_t column = 0; column < strip.columns; column += 4) {
        switch (strip.columns - column) {
            case 1: kOne(panel, in, strip, column); break;
            case 2: kTwo(panel, in, strip, column); break;
            case 3: kThree(panel, in, strip, column); break;
            default: kFour(panel, in, strip, column);
        }
    }
}

#define STENOD_UP_TO_FOUR(columns) strip_product<columns<1>, columns<2>, columns<3>, columns<4>>

}  // namespace

FewColumnsProduct few_columns_product(ggml_type type) {
    if (type != GGML_TYPE_F16 && type != GGML_TYPE_Q8_0) return nullptr;
    const bool halves = type == GGML_TYPE_F16;
    if (instructions() == Instructions::avx512) {
        return halves ? STENOD_UP_TO_FOUR(halves_avx512) : STENOD_UP_TO_FOUR(bytes_avx512);
    }
    if (instructions() == Instructions::avx2) {
        return halves ? STENOD_UP_TO_FOUR(halves_avx2) : STENOD_UP_TO_FOUR(bytes_avx2);
    }
    return nullptr;
}

#else

FewColumnsProduct few_columns_product(ggml_type) { return nullptr; }

#endif

}  // namespace stenod
