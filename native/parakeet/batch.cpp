#include "parakeet/batch.h"

#include <algorithm>

namespace stenod::parakeet {

FrameRange Span::visible(int64_t frame) const {
    const int64_t end = first() + count;
    if (cache) return cache->visible(frame, end);
    const int64_t begin = context.left < 0 ? 0 : std::max<int64_t>(0, frame - context.left);
    return {begin, context.right < 0 ? end : std::min(end, frame + context.right + 1)};
}

}  // namespace stenod::parakeet
