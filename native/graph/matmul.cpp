#include "graph/matmul.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "graph/few_columns.h"
#include "graph/ops.h"
#include "graph/processor.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace stenod {

namespace {

constexpr const char* kPackedName = "packed";  // of a tensor: nothing else in ggml could tell
constexpr int64_t kBlock = PanelBlock::kBlock;
constexpr int64_t kDepth = 256;      // columns of a panel that are multiplied while they are in the first cache
constexpr int64_t kColumns = 128;    // of x, which share a panel's way from its own type to f32

bool can_pack(const ggml_tensor* weight) {
    const bool known = weight->type == GGML_TYPE_F32 || weight->type == GGML_TYPE_F16 || weight->type == GGML_TYPE_Q8_0;
    return known && ggml_n_dims(weight) <= 2 && weight->ne[1] % kPanelRows == 0;
}

bool is_packed(const ggml_tensor* weight) { return std::strcmp(weight->name, kPackedName) == 0; }

/// [in][kPanelRows] of [kPanelRows][in].
template <typename Value>
void interleave(const char* from, int64_t stride, int64_t in, Value* to) {
    for (int64_t begin = 0; begin < in; begin += kBlock) {  // so much of a panel stays in the cache
        for (int64_t row = 0; row < kPanelRows; ++row) {
            for (int64_t i = begin; i < std::min(begin + kBlock, in); ++i) {
                const char* value = from + row * stride + i * static_cast<int64_t>(sizeof(Value));
                std::memcpy(to + i * kPanelRows + row, value, sizeof(Value));
            }
        }
    }
}

struct RowBlock {
    uint16_t scale;
    int8_t values[kBlock];
};

void interleave_blocks(const char* from, int64_t stride, int64_t in, PanelBlock* to) {
    for (int64_t i = 0; i < in / kBlock; ++i, ++to) {
        for (int64_t row = 0; row < kPanelRows; ++row) {
            RowBlock block;
            std::memcpy(&block, from + row * stride + i * static_cast<int64_t>(sizeof block), sizeof block);
            to->scales[row] = block.scale;
            for (int64_t j = 0; j < kBlock; ++j) to->values[j * kPanelRows + row] = block.values[j];
        }
    }
}

#define STENOD_INLINE inline __attribute__((always_inline))

using ConvertHalves = void (*)(const uint16_t* halves, int64_t count, float* floats);

/// `depth` columns of a panel from column `first` on, as f32: where they lie, or in `buffer`.
STENOD_INLINE const float* unpacked(ggml_type type, const char* panel, int64_t first, int64_t depth, float* buffer,
                                    ConvertHalves convert) {
    const int64_t begin = first * kPanelRows, count = depth * kPanelRows;
    if (type == GGML_TYPE_F32) return reinterpret_cast<const float*>(panel) + begin;
    if (type == GGML_TYPE_F16) {
        convert(reinterpret_cast<const uint16_t*>(panel) + begin, count, buffer);
        return buffer;
    }
    const auto* block = reinterpret_cast<const PanelBlock*>(panel) + first / kBlock;
    for (float* to = buffer; to < buffer + count; ++block) {
        float scales[kPanelRows];
        convert(block->scales, kPanelRows, scales);
        for (int64_t i = 0; i < kBlock; ++i, to += kPanelRows) {
            for (int64_t row = 0; row < kPanelRows; ++row) {
                to[row] = static_cast<float>(block->values[i * kPanelRows + row]) * scales[row];
            }
        }
    }
    return buffer;
}

/// kColumnsAtOnce columns times 2 * lanes rows of a panel, added to what is there unless it is the first time.
template <typename Lanes, int kColumnsAtOnce>
STENOD_INLINE void multiply_columns(const float* weights, int64_t depth, const Strip& strip, int64_t column, int64_t row,
                                    bool is_first) {
    constexpr int64_t kLanes = sizeof(Lanes) / sizeof(float);
    const float* x = strip.x + column * strip.x_stride;
    float* out = strip.out + column * strip.out_stride + row;
    Lanes sums[kColumnsAtOnce][2] = {};
    if (!is_first) {
        for (int c = 0; c < kColumnsAtOnce; ++c) {
            sums[c][0] = *reinterpret_cast<const Lanes*>(out + c * strip.out_stride);
            sums[c][1] = *reinterpret_cast<const Lanes*>(out + c * strip.out_stride + kLanes);
        }
    }
    for (int64_t i = 0; i < depth; ++i) {
        const float* at = weights + i * kPanelRows + row;
        const Lanes first = *reinterpret_cast<const Lanes*>(at), second = *reinterpret_cast<const Lanes*>(at + kLanes);
        for (int c = 0; c < kColumnsAtOnce; ++c) {
            const float value = x[c * strip.x_stride + i];
            sums[c][0] += first * value;
            sums[c][1] += second * value;
        }
    }
    for (int c = 0; c < kColumnsAtOnce; ++c) {
        *reinterpret_cast<Lanes*>(out + c * strip.out_stride) = sums[c][0];
        *reinterpret_cast<Lanes*>(out + c * strip.out_stride + kLanes) = sums[c][1];
    }
}

/// A panel's columns from `first` on times a strip's; kMost columns at once are as many as there are registers for.
template <typename Lanes, int kMost>
STENOD_INLINE void multiply_any(ggml_type type, const char* panel, int64_t first, int64_t depth, const Strip& strip,
                                  float* buffer, ConvertHalves convert) {
    const float* weights = unpacked(type, panel, first, depth, buffer, convert);
    constexpr int64_t kRows = 2 * sizeof(Lanes) / sizeof(float);
    for (int64_t row = 0; row < kPanelRows; row += kRows) {
        int64_t column = 0;
        for (; column + kMost <= strip.columns; column += kMost) {
            multiply_columns<Lanes, kMost>(weights, depth, strip, column, row, first == 0);
        }
        for (; column + 4 <= strip.columns; column += 4) {
            multiply_columns<Lanes, 4>(weights, depth, strip, column, row, first == 0);
        }
        for (; column + 2 <= strip.columns; column += 2) {
            multiply_columns<Lanes, 2>(weights, depth, strip, column, row, first == 0);
        }
        for (; column < strip.columns; ++column) {
            multiply_columns<Lanes, 1>(weights, depth, strip, column, row, first == 0);
        }
    }
}

using Lanes4 = float __attribute__((vector_size(16), aligned(4), may_alias));
using Lanes8 = float __attribute__((vector_size(32), aligned(4), may_alias));
using Lanes16 = float __attribute__((vector_size(64), aligned(4), may_alias));
using PanelProduct = void (*)(ggml_type, const char*, int64_t, int64_t, const Strip&, float*);

void convert_anywhere(const uint16_t* halves, int64_t count, float* floats) {
    ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t*>(halves), floats, count);
}

void multiply_anywhere(ggml_type type, const char* panel, int64_t first, int64_t depth, const Strip& strip, float* buffer) {
    multiply_any<Lanes4, 6>(type, panel, first, depth, strip, buffer, convert_anywhere);
}

#ifdef __x86_64__
__attribute__((target("avx2,f16c")))
void convert_avx2(const uint16_t* halves, int64_t count, float* floats) {
    for (int64_t i = 0; i < count; i += 8) {
        _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i))));
    }
}

__attribute__((target("avx2,fma")))
void multiply_avx2(ggml_type type, const char* panel, int64_t first, int64_t depth, const Strip& strip, float* buffer) {
    multiply_any<Lanes8, 6>(type, panel, first, depth, strip, buffer, convert_avx2);
}

__attribute__((target("avx512f")))
void convert_avx512(const uint16_t* halves, int64_t count, float* floats) {
    constexpr __mmask16 kAll = 0xffff;  // without a mask, GCC 12 warns of its own header
    for (int64_t i = 0; i < count; i += 16) {
        const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + i));
        _mm512_storeu_ps(floats + i, _mm512_maskz_cvtph_ps(kAll, some));
    }
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
void multiply_avx512(ggml_type type, const char* panel, int64_t first, int64_t depth, const Strip& strip, float* buffer) {
    multiply_any<Lanes16, 12>(type, panel, first, depth, strip, buffer, convert_avx512);
}
#endif

PanelProduct choose_product() {
#ifdef __x86_64__
    if (instructions() == Instructions::avx512) {
        return multiply_avx512;
    }
    if (instructions() == Instructions::avx2) {
        return multiply_avx2;
    }
#endif
    return multiply_anywhere;
}

PanelProduct best_product() {
    static const PanelProduct best = choose_product();
    return best;
}

/// Where `columns` columns from `column` on of a product are made, the rows of one panel, from x's row `first` on.
Strip strip_of(const ggml_tensor* x, ggml_tensor* out, int64_t column, int64_t columns, int64_t panel, int64_t first) {
    return {row(x, column) + first, static_cast<int64_t>(x->nb[1] / sizeof(float)),
            row(out, column) + panel * kPanelRows, static_cast<int64_t>(out->nb[1] / sizeof(float)), columns};
}

/// Each thread makes some rows of the result.
void compute(ggml_tensor* out, int thread, int threads, void*) {
    const PanelProduct product = best_product();
    thread_local std::vector<float> buffer(kDepth * kPanelRows);
    const ggml_tensor *weight = out->src[0], *x = out->src[1];
    const int64_t in = weight->ne[0], columns = x->ne[1], panels = weight->ne[1] / kPanelRows;
    const auto panel_bytes = static_cast<int64_t>(weight->nb[1]) * kPanelRows;
    const int64_t begin = panels * thread / threads, end = panels * (thread + 1) / threads;
    const FewColumnsProduct few = columns <= kFewColumns ? few_columns_product(weight->type) : nullptr;
    if (few) {
        for (int64_t panel = begin; panel < end; ++panel) {
            few(static_cast<const char*>(weight->data) + panel * panel_bytes, in, strip_of(x, out, 0, columns, panel, 0));
        }
        return;
    }
    for (int64_t column = 0; column < columns; column += kColumns) {
        for (int64_t first = 0; first < in; first += kDepth) {
            for (int64_t panel = begin; panel < end; ++panel) {
                const Strip strip = strip_of(x, out, column, std::min(kColumns, columns - column), panel, first);
                product(weight->type, static_cast<const char*>(weight->data) + panel * panel_bytes, first,
                        std::min(kDepth, in - first), strip, buffer.data());
            }
        }
    }
}

/// The rows of a packed matrix that are asked for.
void gather(ggml_tensor* out, int, int, void*) {
    const ggml_tensor *weight = out->src[0], *indices = out->src[1];
    const int64_t in = weight->ne[0], panel_bytes = static_cast<int64_t>(weight->nb[1]) * kPanelRows;
    for (int64_t i = 0; i < out->ne[1]; ++i) {
        const int64_t index = static_cast<const int32_t*>(indices->data)[i];
        const char* panel = static_cast<const char*>(weight->data) + index / kPanelRows * panel_bytes;
        const int64_t lane = index % kPanelRows;
        float* to = row(out, i);
        if (weight->type == GGML_TYPE_F32) {
            for (int64_t j = 0; j < in; ++j) to[j] = reinterpret_cast<const float*>(panel)[j * kPanelRows + lane];
        } else if (weight->type == GGML_TYPE_F16) {
            const auto* halves = reinterpret_cast<const ggml_fp16_t*>(panel);
            for (int64_t j = 0; j < in; ++j) to[j] = ggml_fp16_to_fp32(halves[j * kPanelRows + lane]);
        } else {
            const auto* blocks = reinterpret_cast<const PanelBlock*>(panel);
            for (int64_t j = 0; j < in; ++j) {
                const PanelBlock& block = blocks[j / kBlock];
                to[j] = static_cast<float>(block.values[j % kBlock * kPanelRows + lane]) *
                        ggml_fp16_to_fp32(block.scales[lane]);
            }
        }
    }
}

}  // namespace

void multiply_panel(const float* panel, int64_t first, int64_t depth, const Strip& strip) {
    best_product()(GGML_TYPE_F32, reinterpret_cast<const char*>(panel), first, depth, strip, nullptr);
}

void pack(ggml_tensor* weight, const void* rows) {
    if (!can_pack(weight)) {
        std::memcpy(weight->data, rows, ggml_nbytes(weight));
        return;
    }
    ggml_set_name(weight, kPackedName);
    const int64_t in = weight->ne[0];
    const auto stride = static_cast<int64_t>(weight->nb[1]);
    for (int64_t row = 0; row < weight->ne[1]; row += kPanelRows) {
        const char* from = static_cast<const char*>(rows) + row * stride;
        char* to = static_cast<char*>(weight->data) + row * stride;
        switch (weight->type) {
            case GGML_TYPE_F32: interleave(from, stride, in, reinterpret_cast<float*>(to)); break;
            case GGML_TYPE_F16: interleave(from, stride, in, reinterpret_cast<uint16_t*>(to)); break;
            default: interleave_blocks(from, stride, in, reinterpret_cast<PanelBlock*>(to));
        }
    }
}

ggml_tensor* look_up(ggml_context* context, ggml_tensor* weight, ggml_tensor* indices) {
    if (!is_packed(weight)) return ggml_get_rows(context, weight, indices);
    ggml_tensor* arguments[] = {weight, indices};
    return ggml_custom_4d(context, GGML_TYPE_F32, weight->ne[0], ggml_nelements(indices), 1, 1, arguments, 2, gather, 1,
                          nullptr);
}

ggml_tensor* multiply(ggml_context* context, ggml_tensor* weight, ggml_tensor* x) {
    if (!is_packed(weight)) return ggml_mul_mat(context, weight, x);
    ggml_tensor* arguments[] = {weight, x};
    return ggml_custom_4d(context, GGML_TYPE_F32, weight->ne[1], x->ne[1], 1, 1, arguments, 2, compute, GGML_N_TASKS_MAX,
                          nullptr);
}

}  // namespace stenod
