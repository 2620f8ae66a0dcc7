#include "whisper/long_form.h"

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "whisper/evidence.h"

namespace stenod::whisper {

namespace {

constexpr double kSecondsPerHop = 0.01;

}  // namespace

std::vector<int> encode_prompt(const Model& model, const std::string& text) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return {};
    const size_t last = text.find_last_not_of(" \t\r\n");
    const auto tokens = model.tokenizer.encode(" " + text.substr(first, last - first + 1));
    return {tokens.begin(), tokens.end()};
}

LongForm::LongForm(const Model& model, const float* samples, size_t count, TranscribeOptions options)
    : model_(model), options_(std::move(options)), mel_(model.mel) {
    if (options_.translate && !model_.multilingual()) throw BadArgument("task: the model knows English only");
    language_token_ = model_.chosen_language(options_.language);
    history_ = encode_prompt(model_, options_.prompt);
    mel_.push(samples, count);
    content_ = (count + Model::kHop - 1) / Model::kHop;
    result_.duration = static_cast<double>(count) / Model::kSampleRate;
}

double LongForm::seconds_done() const { return std::min(seek_, content_) * kSecondsPerHop; }

void LongForm::begin_window(Encoder& encoder, Pool<CrossCache>& caches, Pool<Lane>& lanes) {
    const size_t most = 2 * static_cast<size_t>(model_.encoder.context);
    window_frames_ = std::min(most, content_ - seek_);
    const int audio = static_cast<int>((window_frames_ + 1) / 2);
    const int positions = options_.full_window ? model_.encoder.context
                                               : Encoder::bucket(model_, audio + kTrailingSilence);
    cross_ = caches.take(model_);
    encoder.encode_window(mel_, seek_, positions, *cross_);

    WindowOptions window;
    if (options_.condition_on_previous_text || result_.segments.empty()) {
        window.previous.assign(history_.begin() + history_start_, history_.end());
    }
    window.language_token = language_token_;
    window.translate = options_.translate;
    window.timestamps = options_.timestamps;
    window.temperatures = options_.temperatures;
    window.beam_size = options_.beam_size;
    window.best_of = options_.best_of;
    window.compression_ratio_threshold = options_.compression_ratio_threshold;
    window.logprob_threshold = options_.logprob_threshold;
    window.no_speech_threshold = options_.no_speech_threshold;
    window.max_tokens = most_tokens(window_frames_ * kSecondsPerHop);
    window.speech_evidence = options_.speech_evidence;
    window.seed = options_.seed;
    window_ = std::make_unique<WindowDecoding>(model_, *cross_, audio, lanes, std::move(window));
}

void LongForm::end_window() {
    const WindowResult window = window_->result();
    window_.reset();
    cross_.reset();
    language_token_ = window.language_token;
    const bool silent = window.no_speech_prob > options_.no_speech_threshold &&
                        window.avg_logprob < options_.logprob_threshold;
    if (silent || (options_.speech_evidence && !window.speech_evident)) {
        seek_ += window_frames_;
    } else {
        split(window);
        if (window.temperature > 0.5f) history_start_ = history_.size();
    }
    mel_.drop_before(std::min(seek_, mel_.frames()));
}

float LongForm::timestamp(int token) const {
    return static_cast<float>((token - model_.token.timestamp_begin) * Model::kSecondsPerPosition);
}

/// Pairs of timestamps close a segment and open the next; text after the last pair is heard again in the next window.
void LongForm::split(const WindowResult& window) {
    const std::vector<int>& tokens = window.tokens;
    const auto is_timestamp = [&](size_t i) { return tokens[i] >= model_.token.timestamp_begin; };
    const size_t size = tokens.size();
    const bool ends_with_one = size >= 1 && is_timestamp(size - 1) && (size < 2 || !is_timestamp(size - 2));
    std::vector<size_t> cuts;
    for (size_t i = 1; i < size; ++i) {
        if (is_timestamp(i) && is_timestamp(i - 1)) cuts.push_back(i);
    }
    const float offset = static_cast<float>(seek_ * kSecondsPerHop);
    if (cuts.empty()) {
        float duration = static_cast<float>(window_frames_ * kSecondsPerHop);
        for (size_t i = 0; i < size; ++i) {
            if (is_timestamp(i) && tokens[i] != model_.token.timestamp_begin) duration = timestamp(tokens[i]);
        }
        const float start = size > 0 && is_timestamp(0) ? timestamp(tokens[0]) : 0.0f;
        add_segment(window, 0, size, offset + start, offset + duration);
        seek_ += window_frames_;
        return;
    }
    if (ends_with_one) cuts.push_back(size);
    size_t first = 0;
    for (size_t cut : cuts) {
        add_segment(window, first, cut, offset + timestamp(tokens[first]), offset + timestamp(tokens[cut - 1]));
        first = cut;
    }
    if (ends_with_one) {
        seek_ += window_frames_;
    } else {
        // Never stands still, whatever the model says.
        seek_ += std::max(1, 2 * (tokens[first - 1] - model_.token.timestamp_begin));
    }
}

void LongForm::add_segment(const WindowResult& window, size_t first, size_t end, float start, float stop) {
    Segment segment;
    segment.start = start;
    segment.end = std::min(stop, static_cast<float>(result_.duration));
    segment.avg_logprob = window.avg_logprob;
    segment.no_speech_prob = window.no_speech_prob;
    segment.compression_ratio = window.compression_ratio;
    segment.temperature = window.temperature;
    const float offset = static_cast<float>(seek_ * kSecondsPerHop);
    for (size_t i = first; i < end; ++i) {
        const int token = window.tokens[i];
        history_.push_back(token);
        if (token >= model_.token.eot) continue;
        segment.tokens.push_back({token, offset + window.times[i].start, offset + window.times[i].end,
                                  std::exp(window.logprobs[i])});
    }
    if (!segment.tokens.empty()) result_.segments.push_back(std::move(segment));
}

Transcription LongForm::result() {
    if (language_token_ >= 0) result_.language = model_.languages[language_token_ - model_.token.language(0)];
    if (!model_.multilingual()) result_.language = "en";
    result_.no_speech = result_.segments.empty();
    return std::move(result_);
}

}  // namespace stenod::whisper
