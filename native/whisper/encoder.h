#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/executor.h"
#include "whisper/model.h"

namespace stenod::whisper {

/// What the decoder attends to: each decoder block's keys and values of one encoder output, [width, positions].
/// Memory for a whole window is reserved, but only what is used is touched.
class CrossCache {
public:
    explicit CrossCache(const Model& model);

    int positions = 0;  ///< 20 ms each; 0: nothing encoded yet
    std::vector<ggml_tensor*> keys, values;
    ggml_backend_buffer* buffer() const { return buffer_.get(); }

private:
    ContextPtr context_;
    BufferPtr buffer_;
};

/// Whisper's encoder, with one graph for each length of window.
class Encoder {
public:
    Encoder(const Model& model, Executor& executor);
    ~Encoder();

    /// Lengths are multiples of this many positions (2.56 s), and the whole window.
    static constexpr int kBucket = 128;
    static constexpr int kShortest = 3 * kBucket;
    /// The least length that holds `positions`.
    static int bucket(const Model& model, int positions);

    /// Encodes `mel` [mel_bands][2 * positions], normalised, into `cross`. Throws Aborted, BackendError, OutOfMemory.
    void encode(const float* mel, int positions, CrossCache& cross);

    /// Encodes the audio of `mel` from hop `start` on, followed by silence up to `positions`.
    void encode_window(const LogMelStream& mel, size_t start, int positions, CrossCache& cross);

    /// As `encode`, and returns the encoder's output [positions][width].
    std::vector<float> encode_output(const float* mel, int positions, CrossCache& cross);

    /// Seconds spent computing.
    double seconds() const { return seconds_; }

private:
    struct Shape;
    Shape& shape(int positions);
    std::unique_ptr<Shape> build(int positions) const;

    const Model& model_;
    Executor& executor_;
    std::map<int, std::unique_ptr<Shape>> shapes_;
    double seconds_ = 0;
};

}  // namespace stenod::whisper
