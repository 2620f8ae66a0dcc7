#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "audio/log_mel.h"
#include "engine.h"
#include "graph/executor.h"
#include "graph/layers.h"
#include "model/gguf_file.h"
#include "model/tokenizer.h"

namespace stenod::whisper {

/// One of the two transformers' sizes.
struct StackSize {
    int context = 0;  ///< positions: encoder 1500 (20 ms each), decoder 448 tokens
    int width = 0;
    int blocks = 0;
    int heads = 0;
    int feed_forward = 0;

    int head_width() const { return width / heads; }
};

struct SpecialTokens {
    int eot = 0, sot = 0, translate = 0, transcribe = 0, sot_lm = 0, sot_prev = 0, no_speech = 0, no_timestamps = 0,
        timestamp_begin = 0;

    int language(int index) const { return sot + 1 + index; }
};

struct Attention {
    Norm norm;
    Linear query, key, value, out;
};

struct Block {
    Attention self;
    Attention cross;  ///< decoder only
    Norm mlp_norm;
    Linear up, down;
};

/// Whisper's weights, vocabulary and front-end parameters: read once, then immutable.
class Model final : public stenod::Model {
public:
    /// Seconds of audio that the encoder sees at most, and what one of its positions stands for.
    static constexpr int kWindowSeconds = 30;
    static constexpr double kSecondsPerPosition = 0.02;
    static constexpr int kHop = 160;

    /// Takes everything from an opened file. Throws BadModel, OutOfMemory.
    explicit Model(GgufFile& file);

    std::string family() const override { return "whisper"; }
    std::vector<std::string> language_codes() const override;
    bool tells_end_of_turn() const override { return false; }
    std::map<std::string, std::variant<std::string, int64_t>> info() const override;
    int width() const override { return encoder.width; }
    std::vector<int> tokenize(const std::string& text) const override;
    std::string token_bytes(int id) const override { return tokenizer.bytes(id); }
    std::vector<float> log_mel(const Clip& clip, int frames) const override;
    std::unique_ptr<stenod::Stream> make_stream(const StreamOptions& options) const override;
    std::unique_ptr<stenod::Worker> make_worker(int threads) const override;

    int vocabulary = 0;
    StackSize encoder, decoder;
    SpecialTokens token;
    std::vector<std::string> languages;  ///< codes in the order of their tokens; empty: English only
    std::vector<std::pair<int, int>> alignment_heads;  ///< (decoder block, head)
    std::vector<int> suppress_tokens, begin_suppress_tokens;
    Tokenizer tokenizer;
    MelSpectrogram mel;

    Linear conv1, conv2;
    ggml_tensor* encoder_positions = nullptr;
    ggml_tensor* decoder_positions = nullptr;
    ggml_tensor* token_embedding = nullptr;  ///< rows padded with zeros to a multiple of kRowTile
    Norm encoder_norm, decoder_norm;
    std::vector<Block> encoder_blocks, decoder_blocks;

    ggml_type weight_type = GGML_TYPE_F16;
    /// Keys and values are kept in f16, but in an f32 model, which serves as the reference.
    ggml_type cache_type() const { return weight_type == GGML_TYPE_F32 ? GGML_TYPE_F32 : GGML_TYPE_F16; }

    bool multilingual() const { return !languages.empty(); }
    /// The token of a language. Throws BadArgument naming the code.
    int language_token(const std::string& code) const;
    /// The same for an option: -1 where it is empty (to be detected), and for "en" where the model knows nothing else.
    int chosen_language(const std::string& code) const;

private:
    void read_sizes(const GgufFile& file);
    void read_vocabulary(const GgufFile& file);
    void read_weights(GgufFile& file);

    ContextPtr context_;
    BufferPtr buffer_;
};

}  // namespace stenod::whisper
