#pragma once

#include <cstdint>
#include <vector>

#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

/// Greedy search of CTC: the best token of each frame, a run of equal ones taken as one. A token's frame is the first of
/// its run, its duration the length; it is certain when the run has ended, and tentative before.
class Ctc {
public:
    explicit Ctc(const HeadWeights& weights);

    /// Hears frames of logits, [count][frame_width].
    void hear(const float* frames, int count);
    /// Ends the run.
    void finish();
    std::vector<Token> tentative() const;

    std::vector<Token> committed;  ///< found and not yet taken away

private:
    const HeadWeights* weights_;
    int64_t frame_ = 0;
    Token run_;  ///< what goes on now, perhaps blank
};

}  // namespace stenod::parakeet
