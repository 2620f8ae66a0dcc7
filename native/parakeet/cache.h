#pragma once

#include <cstdint>
#include <vector>

#include "parakeet/model.h"

namespace stenod::parakeet {

/// Frames that a frame may look at: from begin, before end.
struct FrameRange {
    int64_t begin, end;
};

/// What a cache-aware encoder keeps of a stream: in every block the keys and values of the frames that are still seen, and
/// the last inputs of the convolution. Frames are written behind those that count until `advance`: what was written in
/// vain is simply written again.
class EncoderCache {
public:
    /// `context`: limited on both sides, else BadArgument. `model` must outlive the cache.
    EncoderCache(const Model& model, AttentionContext context);

    /// Frames encoded so far.
    int64_t frames() const { return frames_; }
    /// Frames of a chunk, which see each other.
    int chunk() const { return context_.right + 1; }
    /// What `frame` may look at, in a stream that ends (for now) before `end`.
    FrameRange visible(int64_t frame, int64_t end) const;

    /// The next `count` frames may be written.
    void prepare(int count);
    /// The next `count` frames, written in every block, count from now on.
    void advance(int count);
    /// Forgets the stream.
    void reset();

    /// Rows [width] of a block, from frame `first_row()` on.
    float* keys(int block) { return keys_[static_cast<size_t>(block)].data(); }
    float* values(int block) { return values_[static_cast<size_t>(block)].data(); }
    int64_t first_row() const { return first_row_; }

    /// The inputs [kernel - 1][width] of a block's convolution before the next frame, and after the frames being written.
    float* history(int block) { return history_[static_cast<size_t>(block)].data(); }
    float* next_history(int block) { return next_history_[static_cast<size_t>(block)].data(); }

private:
    const Model& model_;
    AttentionContext context_;
    int64_t kept_;           ///< frames before a chunk that it may still see
    int64_t first_row_ = 0;
    int64_t frames_ = 0;
    std::vector<std::vector<float>> keys_, values_, history_, next_history_;  ///< of each block
};

}  // namespace stenod::parakeet
