#pragma once

#include <cstdint>
#include <vector>

#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

/// Greedy search of CTC: the best token of each frame, runs of equal ones taken as one. A token is told at its first frame; its
/// duration is known, and the token committed, when the run ends.
class Ctc {
public:
    explicit Ctc(const HeadWeights& weights);

    /// Hears frames of logits, [count][frame_width].
    void hear(const float* frames, int count);
    /// Ends the run.
    void finish();
    std::vector<Token> tentative() const;

    std::vector<Token> committed;

private:
    const HeadWeights* weights_;
    int64_t frame_ = 0;
    Token run_;            ///< the token that is on now
    bool running_ = false;
};

}  // namespace stenod::parakeet
