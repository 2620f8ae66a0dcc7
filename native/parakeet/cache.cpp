#include "parakeet/cache.h"

#include <algorithm>
#include <utility>

#include "errors.h"

namespace stenod::parakeet {

namespace {

constexpr int64_t kSpareRows = 64;  // how rarely what is kept is moved to the front

AttentionContext checked(AttentionContext context) {
    if (context.left < 0 || context.right < 0) throw BadArgument("context: an encoder's cache needs a limited one");
    return context;
}

}  // namespace

EncoderCache::EncoderCache(const Model& model, AttentionContext context)
    : model_(model), context_(checked(context)), kept_(context.left / chunk() * chunk()) {
    const auto blocks = static_cast<size_t>(model.encoder.blocks);
    const auto inputs = static_cast<size_t>((model.encoder.kernel - 1) * model.encoder.width);
    keys_.resize(blocks);
    values_.resize(blocks);
    history_.resize(blocks, std::vector<float>(inputs));
    next_history_ = history_;
}

FrameRange EncoderCache::visible(int64_t frame, int64_t end) const {
    const int64_t start = frame / chunk() * chunk();
    return {std::max<int64_t>(0, start - kept_), std::min(start + chunk(), end)};
}

void EncoderCache::prepare(int count) {
    const auto width = static_cast<size_t>(model_.encoder.width);
    const auto needed = static_cast<size_t>(frames_ + count - first_row_) * width;
    if (!keys_.empty() && needed <= keys_.front().size()) return;
    // The next frame may be in the middle of a chunk, which sees what its first frame sees.
    const int64_t first = visible(frames_, frames_).begin;
    const auto unseen = static_cast<std::ptrdiff_t>(static_cast<size_t>(first - first_row_) * width);
    const auto rows = static_cast<size_t>(kept_ + chunk() + std::max<int64_t>(count, kSpareRows));
    for (auto* list : {&keys_, &values_}) {
        for (std::vector<float>& block : *list) {
            block.erase(block.begin(), block.begin() + std::min<std::ptrdiff_t>(unseen, static_cast<std::ptrdiff_t>(block.size())));
            block.resize(rows * width);
        }
    }
    first_row_ = first;
}

void EncoderCache::advance(int count) {
    frames_ += count;
    history_.swap(next_history_);
}

void EncoderCache::reset() {
    first_row_ = frames_ = 0;
    for (std::vector<float>& block : history_) std::fill(block.begin(), block.end(), 0.0f);
}

}  // namespace stenod::parakeet
