#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parakeet/phrases.h"
#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

/// Greedy search of RNN-T and TDT with label looping (Bataev et al., "Label-Looping: Highly Efficient Decoding for
/// Transducers", 2024): streams look for their next token together, then the predictor is run for all of them at once.
class Greedy {
public:
    explicit Greedy(const HeadWeights& weights, std::shared_ptr<const PhraseTree> phrases = nullptr);

    /// The frames to be heard next, [count][joint_width]; valid until `wants` is false.
    void feed(const float* frames, int count);
    /// Adds a query, if frames are left.
    void ask(std::vector<Query*>& queries);
    /// Takes the answer to the query asked last.
    void take();

    std::vector<Token> committed;  ///< found and not yet taken away

private:
    bool wants() const { return frame_ < end_; }

    const HeadWeights* weights_;
    std::shared_ptr<const PhraseTree> phrases_;
    Query query_;
    const float* frames_ = nullptr;
    int64_t frame_ = 0;        ///< to be heard next; beyond `end_` after a jump
    int64_t begin_ = 0, end_ = 0;  ///< of `frames_`
    int symbols_ = 0;          ///< emitted at `frame_`
    int phrase_ = PhraseTree::kRoot;
};

}  // namespace stenod::parakeet
