#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parakeet/phrases.h"
#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

/// Greedy search of RNN-T and TDT: one hypothesis, the best token and the best duration each time. Phrases may change which
/// token it is, not whether there is one.
class Greedy {
public:
    explicit Greedy(const HeadWeights& weights, std::shared_ptr<const PhraseTree> phrases = nullptr);

    /// The frames to be heard next, [count][joint_width]. They stay in place until `ask` adds nothing.
    void feed(const float* frames, int count);
    /// Adds the query that comes next, if frames are left.
    void ask(std::vector<Query*>& queries);
    /// Takes the answer to what was asked last.
    void take();

    std::vector<Token> committed;  ///< found and not yet taken away

private:
    int best_token(const float* logits);

    const HeadWeights* weights_;
    std::shared_ptr<const PhraseTree> phrases_;
    Query query_;
    const float* frames_ = nullptr;
    int64_t begin_ = 0, end_ = 0;  ///< of `frames_`
    int64_t frame_ = 0;            ///< to be heard next; beyond `end_` after a jump
    int symbols_ = 0;              ///< found at `frame_`
    int phrase_ = PhraseTree::kRoot;
    std::vector<float> boosted_;
};

}  // namespace stenod::parakeet
