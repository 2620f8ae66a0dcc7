// What of its audio and text a stream keeps in the window that is decoded.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "model/words.h"
#include "whisper/stream.h"

namespace stenod::whisper {

namespace {

constexpr size_t kShortestCut = 100;  ///< hops; to cut off less is not worth it
constexpr double kAfterLastWord = 0.2, kLongRest = 2.5;  ///< seconds, see hear_rest
constexpr double kBeforeWord = 0.05;  ///< seconds, see remember
constexpr int kMostInVain = 3;        ///< hypotheses, see hear_otherwise

}  // namespace

/// The seconds that the window holds.
double Stream::window_s() const { return to_seconds(heard_) - to_utterance(window_start_); }

/// Seconds of the utterance at which a hop begins; negative in the context.
double Stream::to_utterance(size_t hop) const { return hop * kSecondsPerHop - to_seconds(context_samples_); }

size_t Stream::to_hop(double seconds) const {
    return static_cast<size_t>(std::max(0.0, seconds + to_seconds(context_samples_)) / kSecondsPerHop);
}

/// Cuts a long window at the quietest place between committed words, so that a step's cost stays bounded.
void Stream::trim(const Hypothesis& now) {
    if (window_s() <= options_.trim_after_s || committed_.empty()) return;
    const auto words = split_words(model_.tokenizer, {committed_.begin(), committed_.end()}, language(language_token_));
    const double latest = now.timed[committed_.size() - 1].end - options_.keep_s;
    const size_t radius = 15;  // hops around a word's start in which the pause is looked for
    float quietest = std::numeric_limits<float>::infinity();
    size_t cut_hop = 0, cut_token = 0;
    for (size_t i = 1; i < words.size(); ++i) {
        const double start = now.timed[words[i].first_token].start;
        const size_t hop = to_hop(start);
        if (start > latest || hop < window_start_ + kShortestCut) continue;
        for (size_t j = hop - std::min(hop, radius); j <= std::min(hop + radius, mel_.frames() - 1); ++j) {
            const float* bands = mel_.frame(j);
            const float level = std::accumulate(bands, bands + model_.mel_bands, 0.0f);
            if (level < quietest) {
                quietest = level;
                cut_hop = j;
                cut_token = words[i].first_token;
            }
        }
    }
    if (cut_token == 0) return;
    start_window(cut_hop, cut_token, now.timed[cut_token].start - to_utterance(cut_hop));
}

/// Drops what is before hop `hop` and token `token`, which begins `first_word_s` into the new window.
void Stream::start_window(size_t hop, size_t token, double first_word_s) {
    const auto cut = committed_.begin() + static_cast<std::ptrdiff_t>(token);
    before_.insert(before_.end(), committed_.begin(), cut);
    if (before_.size() > kMostBefore) before_.erase(before_.begin(), before_.end() - kMostBefore);
    const auto position = [](double seconds) {
        return std::max(0, static_cast<int>(seconds / Model::kSecondsPerPosition));
    };
    const int zero = model_.token.timestamp_begin, shift = position((hop - window_start_) * kSecondsPerHop);
    std::vector<int> kept;
    if (cut != committed_.end()) kept.push_back(zero + position(first_word_s));
    std::transform(cut, committed_.end(), std::back_inserter(kept), [&](int id) {
        return id < zero ? id : zero + std::max(0, id - zero - shift);
    });
    committed_ = std::move(kept);
    context_tokens_ = context_tokens_ > token ? context_tokens_ - token + 1 : 0;
    window_start_ = hop;
    mel_.drop_before(hop);
}

/// Audio that holds no speech is not heard again and again. What follows a context is left to hear_otherwise.
void Stream::forget_noise() {
    if (context_tokens_ > 0 || window_s() <= options_.trim_after_s) return;
    window_start_ = (context_samples_ + heard_) / Model::kHop - static_cast<size_t>(options_.keep_s / kSecondsPerHop);
    mel_.drop_before(window_start_);
    previous_.clear();
    previous_trusted_ = false;
}

/// The model may end its text before the speech ends. A long rest is heard by itself: true if there is one.
bool Stream::hear_rest(const Hypothesis& now) {
    const auto last = std::find_if(now.timed.rbegin(), now.timed.rend(),
                                   [this](const TimedToken& token) { return token.id < model_.token.eot; });
    if (last == now.timed.rend() || to_seconds(heard_) - last->end < kLongRest) return false;
    const double end = last->end + kAfterLastWord;
    const size_t hop = to_hop(end);
    if (hop < window_start_ + kShortestCut) return false;
    start_window(hop, committed_.size(), 0);
    rest_ = true;
    return true;
}

/// The window begins with the end of the utterance before, whose text is known.
void Stream::recall() {
    mel_.reset();
    committed_.clear();
    context_samples_ = context_tokens_ = 0;
    in_vain_ = 0;
    const Context& context = options_.context;
    const bool other_language = model_.multilingual() && language_token_ < 0;
    if (context.tokens.empty() || other_language) return;
    std::vector<float> samples;
    for (const int16_t sample : context.samples) samples.push_back(static_cast<float>(sample) / 32768.0f);
    mel_.push(samples.data(), samples.size());
    context_samples_ = samples.size();
    committed_ = context.tokens;
    context_tokens_ = committed_.size();
}

/// Where nothing is understood, the audio is heard once more: true if so. After a context the model may take its text for
/// all that there is, or go on with it over noise: then the utterance is heard by itself. In the end, the language may be
/// another than was guessed.
bool Stream::hear_otherwise(bool heard_speech, bool trusted) {
    if (anything_committed_) return false;
    if (context_tokens_ > 0 && !trusted && (final_step_ || ++in_vain_ == kMostInVain)) {
        start_window((context_samples_ + Model::kHop - 1) / Model::kHop, committed_.size(), 0);
        before_.clear();
    } else if (final_step_ && !heard_speech && options_.language_guessed && language_token_ >= 0) {
        language_token_ = -1;
    } else {
        return false;
    }
    previous_.clear();
    previous_trusted_ = false;
    return true;
}

/// What is the context of the next utterance: the last words, and the audio from the first of them on.
void Stream::remember(const Hypothesis& now) {
    if (!anything_committed_ || rest_ || now.looping) return;
    if (window_s() > options_.context_s) {
        const auto words = split_words(model_.tokenizer, {committed_.begin(), committed_.end()}, language(language_token_));
        const double earliest = to_seconds(heard_) - options_.context_s;
        const auto first = std::find_if(words.begin(), words.end(), [&](const Word& word) {
            const double start = now.timed[word.first_token].start;
            return start >= earliest && to_hop(start - kBeforeWord) > window_start_;
        });
        if (first == words.end()) return;
        const double start = now.timed[first->first_token].start;
        const size_t hop = to_hop(start - kBeforeWord);
        start_window(hop, first->first_token, start - to_utterance(hop));
    }
    while (!committed_.empty() && committed_.back() >= model_.token.eot) committed_.pop_back();
    for (const float sample : mel_.samples_from(window_start_ * Model::kHop)) {
        const float scaled = std::clamp(sample * 32768.0f, -32768.0f, 32767.0f);
        next_context_.samples.push_back(static_cast<int16_t>(std::lround(scaled)));
    }
    next_context_.tokens = committed_;
}

}  // namespace stenod::whisper
