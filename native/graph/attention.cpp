#include "graph/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/matmul.h"
#include "graph/ops.h"
#include "graph/softmax.h"

namespace stenod {

namespace {

constexpr int64_t kQueries = 64;  // that share each pass over the keys; their scores stay in the second cache
constexpr int64_t kDepth = 256;   // keys whose values are summed up while they are in the first cache

int64_t in_panels(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

int64_t stride_of(const ggml_tensor* tensor) { return static_cast<int64_t>(tensor->nb[1] / sizeof(float)); }

/// One thread's part of the work, head by head.
class Head {
public:
    Head(ggml_tensor* out, int64_t heads)
        : out_(out),
          query_(out->src[0]),
          key_(out->src[1]),
          value_(out->src[2]),
          width_(out->ne[0] / heads),
          rows_(key_->ne[1]),
          key_panels_(in_panels(rows_)),
          value_panels_(in_panels(width_)),
          keys_(static_cast<size_t>(key_panels_ * kPanelRows * width_)),
          values_(static_cast<size_t>(value_panels_ * kPanelRows * rows_)),
          scores_(static_cast<size_t>(kQueries * key_panels_ * kPanelRows)),
          sums_(static_cast<size_t>(kQueries * value_panels_ * kPanelRows)) {}

    void compute(int64_t head, int64_t first) {
        if (head != head_) pack(head);
        const int64_t count = std::min(kQueries, query_->ne[1] - first);
        score(first, count);
        weigh(first, count);
    }

private:
    /// Keys as [panel][width][kPanelRows], values as [panel][rows][kPanelRows], with zeros where there is nothing.
    void pack(int64_t head) {
        head_ = head;
        for (int64_t k = 0; k < rows_; ++k) {
            const float* key = row(key_, k) + head * width_;
            float* to = &keys_[static_cast<size_t>(k / kPanelRows * kPanelRows * width_ + k % kPanelRows)];
            for (int64_t i = 0; i < width_; ++i) to[i * kPanelRows] = key[i];
            const float* value = row(value_, k) + head * width_;
            for (int64_t panel = 0; panel < value_panels_; ++panel) {
                const int64_t begin = panel * kPanelRows, end = std::min(width_, begin + kPanelRows);
                std::copy(value + begin, value + end, &values_[static_cast<size_t>((panel * rows_ + k) * kPanelRows)]);
            }
        }
    }

    void score(int64_t first, int64_t count) {
        const int64_t stride = key_panels_ * kPanelRows;
        for (int64_t panel = 0; panel < key_panels_; ++panel) {
            const Strip strip{row(query_, first) + head_ * width_, stride_of(query_),
                              scores_.data() + panel * kPanelRows, stride, count};
            multiply_panel(keys_.data() + panel * kPanelRows * width_, 0, width_, strip);
        }
    }

    void weigh(int64_t first, int64_t count) {
        const int64_t stride = key_panels_ * kPanelRows, sums_stride = value_panels_ * kPanelRows;
        const float scale = 1.0f / std::sqrt(static_cast<float>(width_));
        float totals[kQueries];
        for (int64_t i = 0; i < count; ++i) totals[i] = exponentials(scores_.data() + i * stride, rows_, scale);
        for (int64_t begin = 0; begin < rows_; begin += kDepth) {
            for (int64_t panel = 0; panel < value_panels_; ++panel) {
                const Strip strip{scores_.data() + begin, stride, sums_.data() + panel * kPanelRows, sums_stride, count};
                multiply_panel(values_.data() + panel * rows_ * kPanelRows, begin, std::min(kDepth, rows_ - begin), strip);
            }
        }
        for (int64_t i = 0; i < count; ++i) {
            float* to = row(out_, first + i) + head_ * width_;
            for (int64_t c = 0; c < width_; ++c) to[c] = sums_[static_cast<size_t>(i * sums_stride + c)] / totals[i];
        }
    }

    ggml_tensor *out_, *query_, *key_, *value_;
    int64_t width_, rows_;  ///< of a head
    int64_t key_panels_, value_panels_;
    std::vector<float> keys_, values_;
    std::vector<float> scores_;  ///< [kQueries][keys]
    std::vector<float> sums_;    ///< [kQueries][width]
    int64_t head_ = -1;
};

void compute(ggml_tensor* out, int thread, int threads, void* chosen) {
    const int64_t heads = reinterpret_cast<intptr_t>(chosen), queries = out->ne[1], blocks = (queries + kQueries - 1) / kQueries;
    const int64_t begin = heads * blocks * thread / threads, end = heads * blocks * (thread + 1) / threads;
    if (begin == end) return;
    Head head(out, heads);
    for (int64_t item = begin; item < end; ++item) head.compute(item / blocks, item % blocks * kQueries);
}

}  // namespace

ggml_tensor* attend_to_all(ggml_context* context, ggml_tensor* query, ggml_tensor* key, ggml_tensor* value, int heads) {
    ggml_tensor* arguments[] = {query, key, value};
    void* chosen = reinterpret_cast<void*>(static_cast<intptr_t>(heads));
    return ggml_custom_4d(context, GGML_TYPE_F32, query->ne[0], query->ne[1], 1, 1, arguments, 3, compute,
                          GGML_N_TASKS_MAX, chosen);
}

}  // namespace stenod
