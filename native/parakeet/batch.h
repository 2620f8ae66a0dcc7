#pragma once

#include <vector>

#include "graph/ops.h"
#include "parakeet/cache.h"

namespace stenod::parakeet {

/// Rows of one stream in a batch, as the encoder's operations see them.
struct Span {
    int row = 0;
    int count = 0;
    EncoderCache* cache = nullptr;  ///< null: the rows are all there is
    AttentionContext context;       ///< where there is no cache

    /// Frame of the first row.
    int64_t first() const { return cache ? cache->frames() : 0; }
    FrameRange visible(int64_t frame) const;
};

/// What a batch's operations need to know besides their tensors: changes from one computation of a graph to the next.
struct Batch {
    std::vector<Span> spans;  ///< one after the other, from row 0 on
    int64_t greatest_distance = 0;  ///< of the table of positions: that of its first row; each row's is one less

    int rows() const { return spans.empty() ? 0 : spans.back().row + spans.back().count; }
};

/// A batch as the operations of one block see it.
struct BlockView {
    const Batch* batch;
    int block;
    int heads;
};

}  // namespace stenod::parakeet
