#include "parakeet/ctc.h"

#include "model/scores.h"

namespace stenod::parakeet {

Ctc::Ctc(const HeadWeights& weights) : weights_(&weights) { run_.id = weights.blank(); }

void Ctc::hear(const float* frames, int count) {
    for (int i = 0; i < count; ++i, ++frame_) {
        const float* logits = frames + static_cast<size_t>(i) * weights_->frame_width();
        const int best = static_cast<int>(argmax(logits, weights_->tokens + 1));
        if (best == run_.id) {
            ++run_.duration;
            continue;
        }
        finish();
        run_ = {best, frame_, 1, logits[best] - logsumexp(logits, weights_->tokens + 1)};
    }
}

void Ctc::finish() {
    if (run_.id != weights_->blank()) committed.push_back(run_);
    run_.id = weights_->blank();
}

std::vector<Token> Ctc::tentative() const {
    if (run_.id == weights_->blank()) return {};
    return {run_};
}

}  // namespace stenod::parakeet
