#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parakeet/phrases.h"
#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

/// Beam search of RNN-T and TDT, frame by frame: while a hypothesis stands at the frame, those that do are extended by their
/// best tokens and durations, and of all together, those that have jumped ahead included, the best are kept. Hypotheses of the same
/// tokens that stand at the same frame become one, with the sum of their probabilities. That is the modified adaptive
/// expansion search of Kim, Lee, Jang and Kang, "Accelerating RNN Transducer Inference via Adaptive Expansion Search"
/// (2020), with as many expansions as a frame may have tokens instead of a fixed number, and with the durations of
/// Xu et al., "Efficient Sequence Transduction by Jointly Predicting Tokens and Durations" (2023).
///
/// What all hypotheses share is certain. Where they disagree for `kPatience` frames, the best one is right.
class Beam {
public:
    /// Hypotheses less probable than the best one by a factor of exp(this) are given up.
    static constexpr float kMargin = 5.0f;
    /// Frames after which a token is certain: about a second.
    static constexpr int kPatience = 12;

    /// `width`: hypotheses kept, at least 1; 1 gives the greedy search.
    Beam(const HeadWeights& weights, int width, std::shared_ptr<const PhraseTree> phrases = nullptr,
         float margin = kMargin, int patience = kPatience);

    /// As in `Greedy`.
    void feed(const float* frames, int count);
    void ask(std::vector<Query*>& queries);
    void take();

    /// The best hypothesis' tokens that are not certain yet.
    std::vector<Token> tentative() const;
    /// Makes the best hypothesis certain.
    void finish();

    std::vector<Token> committed;  ///< certain and not yet taken away

private:
    struct Hypothesis {
        std::vector<Token> tokens;  ///< those not certain yet
        PredictorStatePtr state;
        int fed = Query::kNone;     ///< the last token, if the state does not know of it
        int64_t frame = 0;          ///< to be heard next
        int symbols = 0;            ///< found at `frame`
        double score = 0;           ///< log of the probability, and phrases' bonus
        int phrase = PhraseTree::kRoot;
    };

    void expand(const Hypothesis& hypothesis, const float* logits, std::vector<Hypothesis>& out);
    Hypothesis extended(const Hypothesis& hypothesis, int token, int duration, float logprob) const;
    void keep_best(std::vector<Hypothesis> candidates);
    void settle();
    void drop_dissenters();

    const HeadWeights* weights_;
    int width_;
    std::shared_ptr<const PhraseTree> phrases_;
    float margin_;
    int patience_;

    std::vector<Hypothesis> hypotheses_;  ///< best first, never empty
    std::vector<Query> queries_;          ///< of those that stand at `frame_`, in order
    int64_t frame_ = 0;
    const float* frames_ = nullptr;
    int64_t begin_ = 0, end_ = 0;
    std::vector<float> scores_;           ///< scratch
};

}  // namespace stenod::parakeet
