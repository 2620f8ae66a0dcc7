#include "parakeet/words.h"

#include <algorithm>
#include <cmath>

namespace stenod::parakeet {

std::vector<TimedToken> TokenTimer::time(const std::vector<Token>& tokens) {
    std::vector<TimedToken> timed;
    for (const Token& token : tokens) {
        const auto seconds = [this](int64_t frame) { return static_cast<float>(static_cast<double>(frame) * frame_s_); };
        float start = end_;
        if (!pieces_->is_punctuation(token.id)) {
            start = seconds(token.frame);
            end_ = seconds(token.frame + std::max(1, token.duration));
        }
        timed.push_back({token.id, start, end_, std::exp(token.logprob)});
    }
    return timed;
}

size_t whole_words(const SentencePieces& pieces, const std::vector<Token>& tokens) {
    size_t count = tokens.size();
    while (count > 0 && !pieces.is_word_start(tokens[count - 1].id)) --count;
    return count > 0 ? count - 1 : 0;
}

}  // namespace stenod::parakeet
