#pragma once

#include <memory>
#include <vector>

#include "audio/log_mel.h"
#include "engine.h"
#include "parakeet/encoder.h"

namespace stenod::parakeet {

/// Mel frames [samples / 160][bands] of a whole clip, as the encoder takes them.
std::vector<float> features(const Model& model, const Clip& clip);

/// Of a cache-aware model's contexts, the one with the widest look-ahead that is not wider than what is asked for, or the
/// narrowest; its default if nothing is asked for.
AttentionContext context_for(const Model& model, std::optional<int> lookahead_ms);

/// What is encoded for a stream in one step.
struct Chunk {
    EncodeRequest request;
    int first = 0;      ///< of the encoded frames, the stream's next
    int count = 0;      ///< frames that are new
    int lookahead = 0;  ///< frames after them, which will be encoded again
};

/// The audio of one stream on its way into the encoder: chunks of a fixed number of frames, each made of exactly the audio
/// that it needs, so that what is encoded does not depend on how the audio came.
class Input {
public:
    virtual ~Input() = default;

    /// Frames of a chunk.
    virtual int chunk() const = 0;
    /// Samples of the stream that the next `chunks` chunks need.
    virtual size_t needed(int chunks) const = 0;
    /// Appends samples: no more than the chunks need that are taken next.
    virtual void push(const float* samples, size_t count) = 0;
    /// The next `chunks` chunks, or, with `last`, all that is left in a stream of `samples` samples. They are the next ones
    /// until `advance` is called.
    virtual Chunk take(int chunks, bool last, size_t samples) = 0;
    /// The chunks taken count.
    virtual void advance() = 0;
    virtual void reset() = 0;
};

/// The way of the model: with caches, or over windows of audio. Throws BadArgument naming the option.
std::unique_ptr<Input> make_input(const Model& model, const StreamOptions& options);

}  // namespace stenod::parakeet
