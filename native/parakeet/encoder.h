#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/executor.h"
#include "parakeet/batch.h"
#include "parakeet/model.h"
#include "parakeet/subsampler.h"

namespace stenod::parakeet {

/// A stretch of a stream to be encoded, and what comes of it.
struct EncodeRequest {
    MelFrames mel;                  ///< all that the wanted frames depend on, normalised where the model wants that
    int count = 0;                  ///< frames wanted: from the cache's next frame on, or from 0 where there is none
    EncoderCache* cache = nullptr;  ///< of a cache-aware model; is left to the caller to `advance`

    std::vector<float> encoded;     ///< [count][width]
};

/// The FastConformer (Rekesh et al., "Fast Conformer with Linearly Scalable Attention", 2023), with one graph for each
/// number of rows.
class Encoder {
public:
    Encoder(const Model& model, Executor& executor);
    ~Encoder();

    /// Encodes all requests in common passes over the weights; what one gets does not depend on the others, to the bit.
    /// Throws Aborted, BackendError, OutOfMemory.
    void encode(const std::vector<EncodeRequest*>& requests);

    /// Seconds spent computing.
    double seconds() const { return seconds_; }

private:
    /// Rows, and frames of the longest span where a frame may see any other, else 0.
    using Key = std::pair<int, int>;
    struct Shape;

    bool limited() const { return table_rows_ > 0; }
    void make_table();
    Shape& shape(const Key& key);
    std::unique_ptr<Shape> build(const Key& key);
    void run(EncodeRequest* const* requests, size_t count);

    const Model& model_;
    Executor& executor_;
    Subsampler subsampler_;
    std::map<Key, std::unique_ptr<Shape>> shapes_;
    uint64_t runs_ = 0;
    double seconds_ = 0;

    /// Where attention is limited: the positions of all distances that occur, as each block sees them.
    ContextPtr table_context_;
    BufferPtr table_buffer_;
    std::vector<ggml_tensor*> table_;
    int table_rows_ = 0, greatest_distance_ = 0;
};

}  // namespace stenod::parakeet
