#include "parakeet/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/softmax.h"
#include "graph/vectorised.h"

namespace stenod::parakeet {

namespace {

constexpr int kGroup = 4;        // queries that share each load of a key
constexpr int kTile = 16;        // queries that share each pass over the keys
constexpr int64_t kBlock = 64;   // keys that stay in the first cache meanwhile

using Lanes = float __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int64_t kLanes = sizeof(Lanes) / sizeof(float);

#define STENOD_INLINE inline __attribute__((always_inline))

STENOD_INLINE float sum_of(const Lanes& lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

STENOD_INLINE const Lanes& at(const float* values) { return *reinterpret_cast<const Lanes*>(values); }

/// Dot products of kGroup queries [kGroup][width] and `count` keys: out [kGroup][out_stride].
STENOD_VECTORISED
void dot_products(const float* queries, const float* keys, int64_t stride, int64_t count, int64_t width, float* out,
                  int64_t out_stride) {
    for (int64_t k = 0; k < count; k += 2) {
        const float* first = keys + k * stride;
        const float* second = k + 1 < count ? first + stride : first;
        Lanes sums[kGroup][2] = {};
        for (int64_t c = 0; c < width; c += kLanes) {
            for (int g = 0; g < kGroup; ++g) {
                sums[g][0] += at(queries + g * width + c) * at(first + c);
                sums[g][1] += at(queries + g * width + c) * at(second + c);
            }
        }
        for (int g = 0; g < kGroup; ++g) {
            out[g * out_stride + k] = sum_of(sums[g][0]);
            if (k + 1 < count) out[g * out_stride + k + 1] = sum_of(sums[g][1]);
        }
    }
}

/// Adds `count` values, weighted, to kGroup sums [kGroup][width].
STENOD_VECTORISED
void add_weighted(const float* weights, int64_t weight_stride, const float* values, int64_t stride, int64_t count,
                  int64_t width, float* out) {
    for (int64_t c = 0; c < width; c += kLanes) {
        Lanes sums[kGroup];
        for (int g = 0; g < kGroup; ++g) sums[g] = at(out + g * width + c);
        for (int64_t k = 0; k < count; ++k) {
            const Lanes value = at(values + k * stride + c);
            for (int g = 0; g < kGroup; ++g) sums[g] += weights[g * weight_stride + k] * value;
        }
        for (int g = 0; g < kGroup; ++g) *reinterpret_cast<Lanes*>(out + g * width + c) = sums[g];
    }
}

STENOD_VECTORISED
void sum_rows(float* out, const float* a, const float* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

STENOD_VECTORISED
void scale_and_add(float* out, const float* x, float scale, const float* bias, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale + bias[i];
}

/// Keys or values of one head: those of frame `first` and on.
struct Rows {
    const float* data;
    int64_t stride;
    int64_t first;

    const float* frame(int64_t index) const { return data + (index - first) * stride; }
};

/// One head's attention of up to kTile queries of a span.
class Tile {
public:
    Tile(const ggml_tensor* out, const BlockView& view)
        : out_(out),
          table_(out->src[1]),
          greatest_distance_(view.batch->greatest_distance),
          block_(view.block),
          width_(out->ne[0]) {}

    void compute(const Span& span, int first, int64_t head, int64_t heads) {
        head_width_ = width_ / heads;
        offset_ = head * head_width_;
        count_ = std::min(kTile, span.count - first);
        first_frame_ = span.first() + first;
        first_row_ = span.row + first;
        seen_ = span.visible(first_frame_);
        seen_.end = span.visible(first_frame_ + count_ - 1).end;
        stride_ = seen_.end - seen_.begin;
        load_queries();
        score(part(span, 1));
        weigh(span, part(span, 2));
    }

private:
    Rows part(const Span& span, int index) const {
        if (span.cache) {
            const float* data = index == 1 ? span.cache->keys(block_) : span.cache->values(block_);
            return {data + offset_, width_, span.cache->first_row()};
        }
        return {row(out_->src[0], span.row) + index * width_ + offset_, 3 * width_, 0};
    }

    void load_queries() {
        content_.assign(static_cast<size_t>(kTile * head_width_), 0.0f);
        position_.assign(static_cast<size_t>(kTile * head_width_), 0.0f);
        for (int i = 0; i < count_; ++i) {
            const float* query = row(out_->src[0], first_row_ + i) + offset_;
            sum_rows(&content_[static_cast<size_t>(i * head_width_)], query, row(out_->src[2], 0) + offset_, head_width_);
            sum_rows(&position_[static_cast<size_t>(i * head_width_)], query, row(out_->src[3], 0) + offset_, head_width_);
        }
    }

    void score(const Rows& keys) {
        scores_.resize(static_cast<size_t>(kTile * stride_));
        for (int64_t begin = seen_.begin; begin < seen_.end; begin += kBlock) {
            const int64_t count = std::min(kBlock, seen_.end - begin);
            for (int group = 0; group < count_; group += kGroup) {
                float* scores = &scores_[static_cast<size_t>(group * stride_ + begin - seen_.begin)];
                dot_products(&content_[static_cast<size_t>(group * head_width_)], keys.frame(begin), keys.stride, count,
                             head_width_, scores, stride_);
                add_positions(group, begin, count, scores);
            }
        }
    }

    /// Query g of a group at key k is row `g` less than the group's last query at that key: the rows of the table that a
    /// group needs overlap, and are multiplied once.
    void add_positions(int group, int64_t begin, int64_t count, float* scores) {
        constexpr int64_t kRows = kBlock + kGroup - 1;
        float products[kGroup * kRows];
        const int64_t last = first_frame_ + group + kGroup - 1;
        const int64_t first_needed = greatest_distance_ - (last - begin);
        // Rows beyond the table belong to pairs that do not see each other.
        const int64_t from = std::clamp<int64_t>(-first_needed, 0, count + kGroup - 1);
        const int64_t to = std::clamp<int64_t>(table_->ne[1] - first_needed, from, count + kGroup - 1);
        std::fill(products, products + kGroup * kRows, 0.0f);
        if (from < to) {
            dot_products(&position_[static_cast<size_t>(group * head_width_)], row(table_, first_needed + from) + offset_,
                         width_, to - from, head_width_, products + from, kRows);
        }
        for (int64_t g = 0; g < kGroup; ++g) {
            float* of_query = scores + g * stride_;
            sum_rows(of_query, of_query, products + g * kRows + kGroup - 1 - g, count);
        }
    }

    void weigh(const Span& span, const Rows& values) {
        float totals[kTile] = {};
        const float scale = 1.0f / std::sqrt(static_cast<float>(head_width_));
        const int padded = (count_ + kGroup - 1) / kGroup * kGroup;
        for (int i = 0; i < padded; ++i) {
            float* scores = &scores_[static_cast<size_t>(i * stride_)];
            const FrameRange own = i < count_ ? span.visible(first_frame_ + i) : FrameRange{seen_.begin, seen_.begin};
            const int64_t begin = own.begin - seen_.begin, end = own.end - seen_.begin;
            std::fill(scores, scores + begin, 0.0f);
            std::fill(scores + end, scores + stride_, 0.0f);
            if (begin < end) totals[i] = exponentials(scores + begin, end - begin, scale);
        }
        sums_.assign(static_cast<size_t>(kTile * head_width_), 0.0f);
        for (int64_t begin = seen_.begin; begin < seen_.end; begin += kBlock) {
            const int64_t count = std::min(kBlock, seen_.end - begin);
            for (int group = 0; group < count_; group += kGroup) {
                add_weighted(&scores_[static_cast<size_t>(group * stride_ + begin - seen_.begin)], stride_,
                             values.frame(begin), values.stride, count, head_width_,
                             &sums_[static_cast<size_t>(group * head_width_)]);
            }
        }
        for (int i = 0; i < count_; ++i) {
            scale_and_add(row(out_, first_row_ + i) + offset_, &sums_[static_cast<size_t>(i * head_width_)],
                          1.0f / totals[i], row(out_->src[4], 0) + offset_, head_width_);
        }
    }

    const ggml_tensor* out_;
    const ggml_tensor* table_;
    int64_t greatest_distance_;
    int block_;
    int64_t width_, head_width_ = 0, offset_ = 0;
    int count_ = 0;
    int64_t first_frame_ = 0, first_row_ = 0;
    FrameRange seen_{};       ///< by any of the queries
    int64_t stride_ = 0;      ///< of scores
    std::vector<float> content_, position_;  ///< queries [kTile][head_width]
    std::vector<float> scores_;              ///< [kTile][stride]
    std::vector<float> sums_;                ///< [kTile][head_width]
};

/// Copies this thread's share of the keys and values of spans with a cache into that.
void store(ggml_tensor* out, int thread, int threads, void* data) {
    const auto& view = *static_cast<const BlockView*>(data);
    const ggml_tensor* source = out->src[0];
    const int64_t width = source->ne[0] / 3;
    for (const Span& span : view.batch->spans) {
        if (!span.cache) continue;
        for (int i = thread; i < span.count; i += threads) {
            const float* from = row(source, span.row + i);
            const int64_t to = (span.first() + i - span.cache->first_row()) * width;
            std::copy_n(from + width, width, span.cache->keys(view.block) + to);
            std::copy_n(from + 2 * width, width, span.cache->values(view.block) + to);
        }
    }
}

void compute(ggml_tensor* out, int thread, int threads, void* data) {
    const auto& view = *static_cast<const BlockView*>(data);
    const int64_t heads = view.heads;
    Tile tile(out, view);
    int item = 0;
    for (const Span& span : view.batch->spans) {
        for (int first = 0; first < span.count; first += kTile) {
            for (int64_t head = 0; head < heads; ++head) {
                if (item++ % threads == thread) tile.compute(span, first, head, heads);
            }
        }
    }
    if (thread == 0) std::fill(row(out, view.batch->rows()), row(out, out->ne[1]), 0.0f);
}

}  // namespace

ggml_tensor* attend(Graph& graph, const ConformerBlock& block, BlockView& view, ggml_tensor* query_key_value,
                    ggml_tensor* positions) {
    ggml_context* context = graph.context();
    graph.expand(ggml_custom_4d(context, GGML_TYPE_F32, 1, 1, 1, 1, &query_key_value, 1, store, GGML_N_TASKS_MAX, &view));
    ggml_tensor* arguments[] = {query_key_value, positions, block.bias_u, block.bias_v, block.value_bias};
    return ggml_custom_4d(context, GGML_TYPE_F32, query_key_value->ne[0] / 3, query_key_value->ne[1], 1, 1, arguments, 5,
                          compute, GGML_N_TASKS_MAX, &view);
}

}  // namespace stenod::parakeet
