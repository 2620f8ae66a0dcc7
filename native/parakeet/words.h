#pragma once

#include <cstddef>
#include <vector>

#include "engine.h"
#include "model/sentence_pieces.h"
#include "parakeet/token.h"

namespace stenod::parakeet {

/// Gives tokens their times. A token lasts its duration, at least one frame; a punctuation mark takes no time and stands at
/// the end of the token before it, which may be of an earlier call.
class TokenTimer {
public:
    /// `frame_s`: seconds from frame to frame.
    TokenTimer(const SentencePieces& pieces, double frame_s) : pieces_(&pieces), frame_s_(frame_s) {}

    std::vector<TimedToken> time(const std::vector<Token>& tokens);

private:
    const SentencePieces* pieces_;
    double frame_s_;
    float end_ = 0;  ///< of the last token
};

/// How many of the tokens are whole words for certain: those before the last one that begins a word.
size_t whole_words(const SentencePieces& pieces, const std::vector<Token>& tokens);

}  // namespace stenod::parakeet
