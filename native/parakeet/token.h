#pragma once

#include <cstdint>
#include <vector>

namespace stenod::parakeet {

/// A token as the search found it.
struct Token {
    int id = 0;
    int64_t frame = 0;   ///< of the stream's frames
    int duration = 0;    ///< frames; RNN-T: 0; CTC: the length of the run
    float logprob = 0;   ///< of the token among tokens and blank (not durations)
};

}  // namespace stenod::parakeet
