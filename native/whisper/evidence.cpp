#include "whisper/evidence.h"

#include <algorithm>
#include <numeric>

#include "model/unicode.h"

namespace stenod::whisper {

namespace {

// Chosen on recordings of speech, single letters included, and of noise, music and signals: see tests/bench.
constexpr int kLongText = 8;
constexpr float kSureLogprob = -1.0f;
constexpr float kNoSpeechWeight = 0.5f;
constexpr float kLeastEvidence = -1.2f;
constexpr float kLikelySilence = 0.58f, kPlainLogprob = -0.6f;

bool has_letters(std::string_view text) {
    const auto characters = decode_utf8(text);
    return std::any_of(characters.begin(), characters.end(), [](char32_t c) { return is_letter(c) || is_number(c); });
}

}  // namespace

int most_tokens(double seconds) { return std::min(224, 24 + static_cast<int>(12 * seconds)); }

size_t loop_start(const std::vector<int>& tokens) {
    const size_t size = tokens.size();
    for (size_t period = 1; period <= size / 3; ++period) {
        // Short phrases are repeated in earnest ("no, no, no, no"), long ones hardly three times.
        const size_t repeats = period == 1 ? 8 : period <= 3 ? 6 : period <= 8 ? 4 : 3;
        if (size < period * repeats) continue;
        size_t start = size - period;
        while (start > 0 && tokens[start - 1] == tokens[start - 1 + period]) --start;
        if (size - start >= period * repeats) return start + period;
    }
    return size;
}

bool speech_evident(const Model& model, const std::vector<int>& tokens, const std::vector<float>& logprobs,
                    float avg_logprob, float no_speech_prob) {
    std::vector<int> text;
    std::vector<float> text_logprobs;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] >= model.token.eot) continue;
        text.push_back(tokens[i]);
        text_logprobs.push_back(logprobs[i]);
    }
    float average = avg_logprob;
    const size_t told = loop_start(text);
    if (told < text.size()) {  // repeating itself, the model is sure of anything
        text.resize(told);
        average = std::accumulate(text_logprobs.begin(), text_logprobs.begin() + told, 0.0f) / static_cast<float>(told);
    }
    if (!has_letters(model.tokenizer.decode({text.begin(), text.end()}))) return false;
    // Over a murmur the model writes at length, but says itself that it is hardly speech.
    if (no_speech_prob > kLikelySilence && average < kPlainLogprob) return false;
    // Over noise the model writes short set phrases, and is less sure of them than of anything that it hears.
    if (text.size() >= kLongText && average >= kSureLogprob) return true;
    return average - kNoSpeechWeight * no_speech_prob >= kLeastEvidence;
}

}  // namespace stenod::whisper
