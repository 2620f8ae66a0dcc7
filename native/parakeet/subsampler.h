#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/executor.h"
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

/// Makes one frame of eight mel frames. Every frame is computed from the mel frames that it depends on, so that nothing is kept
/// between calls: the result is the same, to the bit, however a stream is cut.
class Subsampler {
public:
    Subsampler(const Model& model, Executor& executor);
    ~Subsampler();

    /// Frames that `mel_frames` of mel make in all once the audio has ended with them, and that can be made before it has.
    int64_t frames_at_end(int64_t mel_frames) const;
    int64_t frames_so_far(int64_t mel_frames) const;
    /// The first mel frame that `frame` depends on; 0 at least.
    int64_t first_mel_frame(int64_t frame) const;

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
