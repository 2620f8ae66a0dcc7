#include "parakeet/convolution.h"

#include <algorithm>

#include "graph/vectorised.h"

namespace stenod::parakeet {

namespace {

constexpr int kTaps = 9;  // of a two-dimensional kernel

/// out = bias + the sum of taps[i] * kernel[i], each [width].
STENOD_VECTORISED
void sum_taps(float* out, const float* bias, const float* const* taps, const float* kernel, int count, int64_t width) {
    constexpr int64_t kLanes = 32;
    int64_t begin = 0;
    for (; begin + kLanes <= width; begin += kLanes) {
        float sums[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) sums[i] = bias[begin + i];
        for (int tap = 0; tap < count; ++tap) {
            const float *x = taps[tap] + begin, *weight = kernel + tap * width + begin;
            for (int64_t i = 0; i < kLanes; ++i) sums[i] += x[i] * weight[i];
        }
        for (int64_t i = 0; i < kLanes; ++i) out[begin + i] = sums[i];
    }
    for (; begin < width; ++begin) {
        float sum = bias[begin];
        for (int tap = 0; tap < count; ++tap) sum += taps[tap][begin] * kernel[tap * width + begin];
        out[begin] = sum;
    }
}

/// out = ReLU(bias + the sum of taps[i] * kernel[i]), each tap one number.
STENOD_VECTORISED
void spread_taps(float* out, const float* bias, const float* taps, const float* kernel, int64_t width) {
    for (int64_t i = 0; i < width; ++i) {
        float sum = bias[i];
        for (int tap = 0; tap < kTaps; ++tap) sum += taps[tap] * kernel[tap * width + i];
        out[i] = std::max(sum, 0.0f);
    }
}

STENOD_VECTORISED
void bias_relu_row(float* x, const float* bias, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] = std::max(x[i] + bias[i], 0.0f);
}

/// One span's convolution, from where its rows and what came before them lie.
class Window {
public:
    Window(const ggml_tensor* out, const BlockView& view, const Span& span, const float* zeros)
        : x_(out->src[0]),
          span_(span),
          history_(span.cache ? span.cache->history(view.block) : nullptr),
          zeros_(zeros),
          width_(x_->ne[0]),
          taps_(out->src[1]->ne[1]),
          past_(span.cache ? taps_ - 1 : taps_ / 2) {}

    /// The input of the span's row `index`, which may be outside of it.
    const float* input(int64_t index) const {
        if (index >= span_.count) return zeros_;
        if (index >= 0) return row(x_, span_.row + index);
        return history_ ? history_ + (index + taps_ - 1) * width_ : zeros_;
    }
    void gather(int64_t index, std::vector<const float*>& taps) const {
        for (int64_t tap = 0; tap < taps_; ++tap) taps[static_cast<size_t>(tap)] = input(index + tap - past_);
    }
    void keep(float* next_history) const {
        for (int64_t i = 0; i < taps_ - 1; ++i) {
            std::copy_n(input(span_.count - (taps_ - 1) + i), width_, next_history + i * width_);
        }
    }

private:
    const ggml_tensor* x_;
    const Span& span_;
    const float* history_;
    const float* zeros_;
    int64_t width_, taps_, past_;
};

void compute_convolution(ggml_tensor* out, int thread, int threads, void* data) {
    const auto& view = *static_cast<const BlockView*>(data);
    const ggml_tensor* kernel = out->src[1];
    const int64_t width = out->ne[0];
    const std::vector<float> zeros(static_cast<size_t>(width));
    std::vector<const float*> taps(static_cast<size_t>(kernel->ne[1]));
    for (const Span& span : view.batch->spans) {
        const Window window(out, view, span, zeros.data());
        const int64_t begin = span.count * thread / threads, end = span.count * (thread + 1) / threads;
        for (int64_t i = begin; i < end; ++i) {
            window.gather(i, taps);
            sum_taps(row(out, span.row + i), row(out->src[2], 0), taps.data(), row(kernel, 0),
                     static_cast<int>(taps.size()), width);
        }
        if (thread == 0 && span.cache) window.keep(span.cache->next_history(view.block));
    }
    if (thread == 0) std::fill(row(out, view.batch->rows()), row(out, out->ne[1]), 0.0f);
}

float* frame_of(const ggml_tensor* tensor, int64_t frame, int64_t piece) {
    return reinterpret_cast<float*>(static_cast<char*>(tensor->data) + frame * static_cast<int64_t>(tensor->nb[2]) +
                                    piece * static_cast<int64_t>(tensor->nb[3]));
}

/// Calls `function` for this thread's share of the frames [channels, bands] of all pieces, telling which are audio.
template <typename Function>
void for_frames(const ggml_tensor* out, const StageView& view, int thread, int threads, Function function) {
    const auto pieces = std::min<int64_t>(out->ne[3], static_cast<int64_t>(view.pieces.size()));
    const int64_t frames = out->ne[2], all = frames * pieces;
    for (int64_t i = all * thread / threads; i < all * (thread + 1) / threads; ++i) {
        const Piece& piece = view.pieces[static_cast<size_t>(i / frames)];
        const int64_t frame = piece.first + i % frames;
        function(i % frames, i / frames, frame >= 0 && frame < piece.end);
    }
}

void compute_mel_convolution(ggml_tensor* out, int thread, int threads, void* data) {
    const auto& view = *static_cast<const StageView*>(data);
    const ggml_tensor* mel = out->src[0];
    const int64_t channels = out->ne[0], bands = mel->ne[0];
    for_frames(out, view, thread, threads, [&](int64_t frame, int64_t piece, bool audio) {
        float* to = frame_of(out, frame, piece);
        if (!audio) {
            std::fill(to, to + channels * out->ne[1], 0.0f);
            return;
        }
        for (int64_t band = 0; band < out->ne[1]; ++band) {
            float taps[kTaps] = {};
            for (int64_t tap = 0; tap < kTaps; ++tap) {
                const int64_t source = 2 * band + tap % 3 - view.left;
                if (source < 0 || source >= bands) continue;
                // [bands, frames, pieces]: one dimension less than the outputs.
                taps[tap] = row(mel, piece * mel->ne[1] + 2 * frame + tap / 3)[source];
            }
            spread_taps(to + band * channels, row(out->src[2], 0), taps, row(out->src[1], 0), channels);
        }
    });
}

void compute_channel_convolution(ggml_tensor* out, int thread, int threads, void* data) {
    const auto& view = *static_cast<const StageView*>(data);
    const ggml_tensor* x = out->src[0];
    const int64_t channels = out->ne[0], bands = x->ne[1];
    const std::vector<float> zeros(static_cast<size_t>(channels));
    for_frames(out, view, thread, threads, [&](int64_t frame, int64_t piece, bool) {
        for (int64_t band = 0; band < out->ne[1]; ++band) {
            const float* taps[kTaps];
            for (int64_t tap = 0; tap < kTaps; ++tap) {
                const int64_t source = 2 * band + tap % 3 - view.left;
                const bool inside = source >= 0 && source < bands;
                taps[tap] = inside ? frame_of(x, 2 * frame + tap / 3, piece) + source * channels : zeros.data();
            }
            sum_taps(frame_of(out, frame, piece) + band * channels, row(out->src[2], 0), taps, row(out->src[1], 0), kTaps,
                     channels);
        }
    });
}

void compute_bias_relu(ggml_tensor* out, int thread, int threads, void* data) {
    const auto& view = *static_cast<const StageView*>(data);
    for_frames(out, view, thread, threads, [&](int64_t frame, int64_t piece, bool audio) {
        float* values = frame_of(out, frame, piece);
        for (int64_t band = 0; band < out->ne[1]; ++band) {
            float* of_band = values + band * out->ne[0];
            if (audio) {
                bias_relu_row(of_band, row(out->src[1], 0), out->ne[0]);
            } else {
                std::fill(of_band, of_band + out->ne[0], 0.0f);
            }
        }
    });
}

}  // namespace

ggml_tensor* convolve(Graph& graph, const ConformerBlock& block, BlockView& view, ggml_tensor* x) {
    ggml_tensor* arguments[] = {x, block.depthwise, block.depthwise_bias};
    return ggml_custom_4d(graph.context(), GGML_TYPE_F32, x->ne[0], x->ne[1], 1, 1, arguments, 3, compute_convolution,
                          GGML_N_TASKS_MAX, &view);
}

ggml_tensor* convolve_mel(Graph& graph, const Subsampling& part, StageView& view, ggml_tensor* mel, int reduced_bands) {
    ggml_tensor* arguments[] = {mel, part.first, part.first_bias};
    return ggml_custom_4d(graph.context(), GGML_TYPE_F32, part.first->ne[0], reduced_bands, mel->ne[1] / 2, mel->ne[2],
                          arguments, 3, compute_mel_convolution, GGML_N_TASKS_MAX, &view);
}

ggml_tensor* convolve_channels(Graph& graph, const Subsampling::Separable& part, StageView& view, ggml_tensor* x,
                               int reduced_bands) {
    ggml_tensor* arguments[] = {x, part.depthwise, part.depthwise_bias};
    return ggml_custom_4d(graph.context(), GGML_TYPE_F32, x->ne[0], reduced_bands, x->ne[2] / 2, x->ne[3], arguments, 3,
                          compute_channel_convolution, GGML_N_TASKS_MAX, &view);
}

ggml_tensor* bias_relu(Graph& graph, ggml_tensor* bias, StageView& view, ggml_tensor* x) {
    return ggml_custom_inplace(graph.context(), x, &bias, 1, compute_bias_relu, GGML_N_TASKS_MAX, &view);
}

}  // namespace stenod::parakeet
