#include "parakeet/greedy.h"

#include <algorithm>
#include <utility>

#include "model/scores.h"

namespace stenod::parakeet {

Greedy::Greedy(const HeadWeights& weights, std::shared_ptr<const PhraseTree> phrases)
    : weights_(&weights), phrases_(std::move(phrases)) {
    query_.token = weights.blank();
}

void Greedy::feed(const float* frames, int count) {
    frames_ = frames;
    begin_ = end_;
    end_ += count;
}

void Greedy::ask(std::vector<Query*>& queries) {
    if (frame_ >= end_) return;
    query_.frame = frames_ + (frame_ - begin_) * weights_->joint_width;
    queries.push_back(&query_);
}

void Greedy::take() {
    const float* logits = query_.logits;
    const int blank = weights_->blank();
    const int token = best_token(logits);
    int duration = token == blank ? 1 : 0;
    if (!weights_->durations.empty()) {
        duration = weights_->durations[argmax(logits + blank + 1, weights_->durations.size())];
    }
    if (token == blank) {
        frame_ += std::max(1, duration);
        symbols_ = 0;
        return;
    }
    committed.push_back({token, frame_, duration, logits[token] - logsumexp(logits, blank + 1)});
    query_.token = token;
    if (phrases_) phrase_ = phrases_->step(phrase_, token).node;
    frame_ += duration;
    symbols_ = duration > 0 ? 0 : symbols_ + 1;
    if (symbols_ >= weights_->max_symbols) {
        ++frame_;
        symbols_ = 0;
    }
}

int Greedy::best_token(const float* logits) {
    const int best = static_cast<int>(argmax(logits, weights_->tokens + 1));
    if (!phrases_ || best == weights_->blank()) return best;
    boosted_.assign(logits, logits + weights_->tokens);
    phrases_->favour(phrase_, boosted_.data());
    return static_cast<int>(argmax(boosted_.data(), boosted_.size()));
}

}  // namespace stenod::parakeet
