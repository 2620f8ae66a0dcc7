#pragma once

#include <string>
#include <vector>

#include "audio/log_mel.h"
#include "engine.h"
#include "graph/executor.h"
#include "graph/layers.h"
#include "model/gguf_file.h"
#include "model/sentence_pieces.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

/// The FastConformer's sizes.
struct EncoderSize {
    int width = 0;
    int blocks = 0;
    int heads = 0;
    int feed_forward = 0;
    int kernel = 0;    ///< of the convolution module, in frames; odd
    int channels = 0;  ///< of the subsampling
    int bands = 0;     ///< mel bands
    int reduced_bands = 0;  ///< what the subsampling leaves of them

    int head_width() const { return width / heads; }
};

/// How far a frame sees, in frames.
struct AttentionContext {
    static constexpr int kUnlimited = -1;

    int left = kUnlimited;
    int right = kUnlimited;  ///< of a cache-aware model: a chunk is right + 1 frames, which see each other
};

/// Three convolutions of stride 2 over time and bands, the later two separable, and a projection.
/// Small kernels are f32, [channels, 9] with the bands fastest among the nine.
struct Subsampling {
    static constexpr int kStages = 3;

    /// What one of the convolutions leaves of `length`, padded by 1 and 1, or causally by 2 and 1.
    static int64_t reduced(int64_t length, bool causal) { return causal ? length / 2 + 1 : (length + 1) / 2; }

    struct Separable {
        ggml_tensor *depthwise = nullptr, *depthwise_bias = nullptr;
        Linear pointwise;  ///< [channels, channels]
    };
    ggml_tensor *first = nullptr, *first_bias = nullptr;
    Separable second, third;
    Linear out;  ///< [channels * reduced_bands (channels slowest), width]
};

struct FeedForward {
    Norm norm;
    Linear up, down;
};

/// One block of the encoder, in the order of its parts.
struct ConformerBlock {
    FeedForward first;

    Norm attention_norm;
    ggml_tensor* query_key_value = nullptr;  ///< [width, 3 * width]
    ggml_tensor* position = nullptr;         ///< [width, width]
    /// What is added to queries that look for content, and for positions: [width], with the query's own bias folded in.
    /// A bias of the keys is left out, as softmax does not see it.
    ggml_tensor *bias_u = nullptr, *bias_v = nullptr;
    ggml_tensor* value_bias = nullptr;  ///< [width]
    Linear attention_out;

    Norm convolution_norm;
    Linear expand;  ///< pointwise, [width, 2 * width]
    ggml_tensor *depthwise = nullptr, *depthwise_bias = nullptr;  ///< [width, kernel] and [width]; batch norm folded in
    Norm depthwise_norm;  ///< of the layer-norm variant; else null
    Linear contract;      ///< pointwise, [width, width]

    FeedForward second;
    Norm out_norm;
};

/// Parakeet's weights, vocabulary and front-end parameters: read once, then immutable.
class Model final : public stenod::Model {
public:
    static constexpr int kHop = 160;
    static constexpr int kSubsampling = 8;  ///< mel frames to an encoder frame
    static constexpr int kFrameSamples = kSubsampling * kHop;
    static constexpr double kSecondsPerFrame = 0.08;

    /// Takes everything from an opened file. Throws BadModel, OutOfMemory.
    explicit Model(GgufFile& file);

    std::string family() const override { return "parakeet"; }
    std::vector<std::string> language_codes() const override { return languages; }
    bool tells_end_of_turn() const override;
    std::map<std::string, std::variant<std::string, int64_t>> info() const override;
    int width() const override { return encoder.width; }
    std::vector<int> tokenize(const std::string& text) const override { return pieces.encode(text); }
    std::string token_bytes(int id) const override { return pieces.bytes(id); }
    std::vector<float> log_mel(const Clip& clip, int frames) const override;
    std::unique_ptr<stenod::Stream> make_stream(const StreamOptions& options) const override;
    std::unique_ptr<stenod::Worker> make_worker(int threads) const override;

    std::vector<std::string> languages;  ///< codes; empty where the file does not tell
    SentencePieces pieces;
    MelSpectrogram mel;
    bool normalise_mel = false;  ///< each band to mean 0 and deviation 1 over the audio that is encoded together

    EncoderSize encoder;
    /// Causal throughout, with chunked attention: can be computed chunk by chunk with caches, exactly.
    bool cache_aware = false;
    /// Of a cache-aware model, those it was trained with, the default first; else one.
    std::vector<AttentionContext> contexts;
    float input_scale = 1;  ///< of the subsampled frames: sqrt(width) where the model scales them

    Subsampling subsampling;
    std::vector<ConformerBlock> blocks;
    HeadWeights head;       ///< the transducer, or CTC

    ggml_type weight_type = GGML_TYPE_F16;

private:
    void read_sizes(GgufFile& file);
    void read_contexts(const GgufFile& file);
    void read_head_sizes(const GgufFile& file);
    void read_weights(GgufFile& file);

    ContextPtr context_;
    BufferPtr buffer_;
};

}  // namespace stenod::parakeet
