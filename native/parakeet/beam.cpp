#include "parakeet/beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/scores.h"

namespace stenod::parakeet {

namespace {

struct Scored {
    int index;
    float score;
};

bool is_better(const Scored& a, const Scored& b) {
    return a.score > b.score || (a.score == b.score && a.index < b.index);
}

/// The best `count` of the scores, best first.
std::vector<Scored> best_of(const float* scores, int size, size_t count) {
    std::vector<Scored> best;  // a heap, the worst on top
    for (int i = 0; i < size; ++i) {
        const Scored candidate{i, scores[i]};
        if (best.size() == count && !is_better(candidate, best.front())) continue;
        if (best.size() == count) {
            std::pop_heap(best.begin(), best.end(), is_better);
            best.pop_back();
        }
        best.push_back(candidate);
        std::push_heap(best.begin(), best.end(), is_better);
    }
    std::sort_heap(best.begin(), best.end(), is_better);
    return best;
}

bool same_tokens(const std::vector<Token>& a, const std::vector<Token>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Token& x, const Token& y) { return x.id == y.id; });
}

size_t shared_tokens(const std::vector<Token>& a, const std::vector<Token>& b) {
    size_t count = 0;
    while (count < a.size() && count < b.size() && a[count].id == b[count].id) ++count;
    return count;
}

/// log(exp(a) + exp(b)) for a >= b.
double log_add(double a, double b) { return a + std::log1p(std::exp(b - a)); }

}  // namespace

Beam::Beam(const HeadWeights& weights, int width, std::shared_ptr<const PhraseTree> phrases, float margin,
           int patience)
    : weights_(&weights), width_(width), phrases_(std::move(phrases)), margin_(margin), patience_(patience),
      hypotheses_(1) {
    hypotheses_.front().fed = weights.blank();
}

void Beam::feed(const float* frames, int count) {
    frames_ = frames;
    begin_ = end_;
    end_ += count;
}

void Beam::ask(std::vector<Query*>& queries) {
    frame_ = std::min_element(hypotheses_.begin(), hypotheses_.end(), [](const auto& a, const auto& b) {
                 return a.frame < b.frame;
             })->frame;
    if (frame_ >= end_) return;
    queries_.clear();
    for (const Hypothesis& hypothesis : hypotheses_) {
        if (hypothesis.frame != frame_) continue;
        queries_.push_back({hypothesis.state, hypothesis.fed, frames_ + (frame_ - begin_) * weights_->joint_width, nullptr});
    }
    for (Query& query : queries_) queries.push_back(&query);
}

void Beam::take() {
    std::vector<Hypothesis> candidates;
    auto answer = queries_.begin();
    for (Hypothesis& hypothesis : hypotheses_) {
        if (hypothesis.frame != frame_) {
            candidates.push_back(std::move(hypothesis));
            continue;
        }
        hypothesis.state = answer->state;
        hypothesis.fed = Query::kNone;
        expand(hypothesis, answer->logits, candidates);
        ++answer;
    }
    keep_best(std::move(candidates));
    const bool frame_done = std::none_of(hypotheses_.begin(), hypotheses_.end(),
                                         [this](const Hypothesis& hypothesis) { return hypothesis.frame == frame_; });
    if (frame_done) settle();
}

void Beam::expand(const Hypothesis& hypothesis, const float* logits, std::vector<Hypothesis>& out) {
    const int blank = weights_->blank();
    const float total = logsumexp(logits, blank + 1);
    scores_.resize(blank + 1);
    for (int i = 0; i <= blank; ++i) scores_[i] = logits[i] - total;
    if (phrases_) phrases_->favour(hypothesis.phrase, scores_.data());
    const std::vector<Scored> tokens = best_of(scores_.data(), blank + 1, width_);

    std::vector<Scored> durations{{0, 0.0f}};
    if (!weights_->durations.empty()) {
        const float* values = logits + blank + 1;
        const int count = static_cast<int>(weights_->durations.size());
        const float duration_total = logsumexp(values, count);
        durations = best_of(values, count, width_);
        for (Scored& duration : durations) duration.score -= duration_total;
    }
    std::vector<Scored> pairs;
    for (size_t i = 0; i < tokens.size(); ++i) {
        for (size_t j = 0; j < durations.size(); ++j) {
            pairs.push_back({static_cast<int>(i * durations.size() + j), tokens[i].score + durations[j].score});
        }
    }
    std::sort(pairs.begin(), pairs.end(), is_better);
    pairs.resize(std::min<size_t>(pairs.size(), width_));
    for (const Scored& pair : pairs) {
        const int token = tokens[pair.index / durations.size()].index;
        const int choice = durations[pair.index % durations.size()].index;
        const int duration = weights_->durations.empty() ? 0 : weights_->durations[choice];
        Hypothesis child = extended(hypothesis, token, duration, logits[token] - total);
        child.score += pair.score;
        out.push_back(std::move(child));
    }
}

Beam::Hypothesis Beam::extended(const Hypothesis& hypothesis, int token, int duration, float logprob) const {
    Hypothesis child = hypothesis;
    if (token == weights_->blank()) {
        child.frame += std::max(1, duration);
        child.symbols = 0;
        return child;
    }
    child.tokens.push_back({token, child.frame, duration, logprob});
    child.fed = token;
    if (phrases_) child.phrase = phrases_->step(child.phrase, token).node;
    child.frame += duration;
    child.symbols = duration > 0 ? 0 : child.symbols + 1;
    if (child.symbols >= weights_->max_symbols) {
        ++child.frame;
        child.symbols = 0;
    }
    return child;
}

void Beam::keep_best(std::vector<Hypothesis> candidates) {
    const auto by_score = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
    std::stable_sort(candidates.begin(), candidates.end(), by_score);
    hypotheses_.clear();
    for (Hypothesis& candidate : candidates) {
        const auto same = std::find_if(hypotheses_.begin(), hypotheses_.end(), [&](const Hypothesis& kept) {
            return kept.frame == candidate.frame && same_tokens(kept.tokens, candidate.tokens);
        });
        if (same == hypotheses_.end()) {
            hypotheses_.push_back(std::move(candidate));
            continue;
        }
        same->score = log_add(same->score, candidate.score);
        if (same->fed != Query::kNone && candidate.fed == Query::kNone) {
            same->state = candidate.state;
            same->fed = Query::kNone;
        }
    }
    std::stable_sort(hypotheses_.begin(), hypotheses_.end(), by_score);
    const double least = hypotheses_.front().score - margin_;
    size_t count = std::min<size_t>(hypotheses_.size(), width_);
    while (hypotheses_[count - 1].score < least) --count;
    hypotheses_.resize(count);
}

/// Once a frame is done: so that what is certain does not depend on how the frames were cut.
void Beam::settle() {
    drop_dissenters();
    size_t certain = hypotheses_.front().tokens.size();
    for (const Hypothesis& hypothesis : hypotheses_) {
        certain = std::min(certain, shared_tokens(hypothesis.tokens, hypotheses_.front().tokens));
    }
    const auto& best = hypotheses_.front().tokens;
    committed.insert(committed.end(), best.begin(), best.begin() + certain);
    for (Hypothesis& hypothesis : hypotheses_) {
        hypothesis.tokens.erase(hypothesis.tokens.begin(), hypothesis.tokens.begin() + certain);
    }
}

void Beam::drop_dissenters() {
    const std::vector<Token> best = hypotheses_.front().tokens;
    size_t old = 0;
    while (old < best.size() && best[old].frame + patience_ <= frame_) ++old;
    hypotheses_.erase(std::remove_if(hypotheses_.begin() + 1, hypotheses_.end(),
                                     [&](const Hypothesis& hypothesis) {
                                         return shared_tokens(hypothesis.tokens, best) < old;
                                     }),
                      hypotheses_.end());
}

std::vector<Token> Beam::tentative() const { return hypotheses_.front().tokens; }

void Beam::finish() {
    int64_t last = end_;
    for (const Hypothesis& hypothesis : hypotheses_) last = std::max(last, hypothesis.frame);
    for (Hypothesis& hypothesis : hypotheses_) {
        hypothesis.frame = last;  // how far a jump would have gone beyond the end is of no importance now
        if (phrases_) hypothesis.score += phrases_->leave(std::exchange(hypothesis.phrase, PhraseTree::kRoot));
    }
    keep_best(std::move(hypotheses_));
    hypotheses_.resize(1);
    settle();
}

}  // namespace stenod::parakeet
