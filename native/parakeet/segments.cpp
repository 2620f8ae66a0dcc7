#include "parakeet/segments.h"

#include <algorithm>
#include <cmath>

namespace stenod::parakeet {

namespace {

constexpr float kPauseS = 1.0f;
constexpr float kLongestS = 30.0f;

bool ends_sentence(const Model& model, int id) {
    const std::string& text = model.pieces.bytes(id);
    return !text.empty() && (text.back() == '.' || text.back() == '?' || text.back() == '!');
}

}  // namespace

std::vector<Segment> segments_of(const Model& model, const std::vector<TimedToken>& tokens) {
    std::vector<Segment> segments;
    bool sentence_ended = true;
    for (const TimedToken& token : tokens) {
        const bool word_starts = model.pieces.is_word_start(token.id);
        const bool apart = segments.empty() || token.start - segments.back().end > kPauseS ||
                           token.end - segments.back().start > kLongestS;
        if (segments.empty() || (word_starts && (sentence_ended || apart))) {
            Segment& segment = segments.emplace_back();
            segment.start = token.start;
        }
        Segment& segment = segments.back();
        segment.end = std::max(segment.end, token.end);
        segment.tokens.push_back(token);
        segment.avg_logprob += std::log(std::max(token.p, 1e-10f));
        sentence_ended = ends_sentence(model, token.id);
    }
    for (Segment& segment : segments) segment.avg_logprob /= static_cast<float>(segment.tokens.size());
    return segments;
}

}  // namespace stenod::parakeet
