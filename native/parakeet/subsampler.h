#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/executor.h"
#include "parakeet/cache.h"
#include "parakeet/model.h"

namespace stenod::parakeet {

/// Mel frames [count][bands] of a stream, from frame `first` on.
struct MelFrames {
    const float* data = nullptr;
    int64_t first = 0;
    int64_t count = 0;
    bool last = false;  ///< the audio ends with them

    int64_t end() const { return first + count; }
};

/// Frames that `mel_frames` of mel make once the audio has ended with them.
int64_t frames_at_end(const Model& model, int64_t mel_frames);
/// The mel frames that `frame` depends on, inside the audio: from the first, before the end.
FrameRange mel_of_frame(const Model& model, int64_t frame);

/// Makes one frame of eight mel frames. Every frame is computed from the mel frames that it depends on, so that nothing is kept
/// between calls: the result is the same, to the bit, however a stream is cut.
class Subsampler {
public:
    Subsampler(const Model& model, Executor& executor);
    ~Subsampler();

    /// A stretch of a stream's frames and where they go.
    struct Request {
        MelFrames mel;
        int64_t first = 0;
        int count = 0;
        float* out = nullptr;  ///< [count][width]
    };
    /// Throws Aborted, BackendError, OutOfMemory.
    void compute(const std::vector<Request>& requests);

private:
    using Key = std::pair<int, int>;  ///< frames of a piece, pieces
    struct Shape;

    Shape& shape(const Key& key);
    std::unique_ptr<Shape> build(const Key& key) const;
    void run(const Key& key, const Request* pieces);

    const Model& model_;
    Executor& executor_;
    std::map<Key, std::unique_ptr<Shape>> shapes_;
};

}  // namespace stenod::parakeet
