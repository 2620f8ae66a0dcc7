#include "whisper/stream.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "errors.h"
#include "model/words.h"
#include "whisper/evidence.h"

namespace stenod::whisper {

namespace {

constexpr size_t kShortestWindow = 2;  ///< hops

size_t to_samples(double seconds) { return static_cast<size_t>(std::llround(seconds * Model::kSampleRate)); }

}  // namespace

Stream::Stream(const Model& model, StreamOptions options) : model_(model), mel_(model.mel) {
    reset(std::move(options));
}

void Stream::check(const StreamOptions& options) const {
    if (options.translate && !model_.multilingual()) throw BadArgument("task: the model knows English only");
    if (!(options.step_s >= 0.1 && options.step_s <= 10)) throw BadArgument("step_s: must be from 0.1 to 10");
    model_.chosen_language(options.language);
    const Context& context = options.context;
    const auto unknown = [this](int token) { return token < 0 || token >= model_.vocabulary; };
    if (context.samples.size() > Model::kWindowSeconds * Model::kSampleRate || context.tokens.size() > kMostBefore ||
        std::any_of(context.tokens.begin(), context.tokens.end(), unknown)) {
        throw BadArgument("context: is not of this model");
    }
}

void Stream::reset(std::optional<StreamOptions> options) {
    if (options) {
        check(*options);
        prompt_ = encode_prompt(model_, options->prompt);
        options_ = std::move(*options);
    }
    language_token_ = model_.chosen_language(options_.language);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        waiting_.clear();
        received_ = 0;
        finished_.reset();
        step_s_ = options_.step_s;
        audio_taken_ = false;
    }
    cancel_step();
    next_context_ = {};
    heard_ = window_start_ = 0;
    done_ = anything_committed_ = rest_ = false;
    language_prob_ = 0;
    before_.clear();
    recall();
    previous_.clear();
    previous_trusted_ = false;
    aborted_ = false;
}

void Stream::push(const float* samples, size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) throw BadArgument("samples: the utterance is finished; reset the stream first");
    waiting_.insert(waiting_.end(), samples, samples + count);
    received_ += count;
}

void Stream::finish(std::optional<size_t> samples) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) throw BadArgument("finish: the utterance is finished already");
    finished_ = std::min(samples.value_or(received_), received_);
}

double Stream::step_s() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return step_s_;
}

void Stream::coarsen(double factor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    step_s_ = std::max(factor, 1.0) * options_.step_s;
}

double Stream::audio_s() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return to_seconds(received_);
}

/// With the mutex held.
size_t Stream::next_grid_point() const {
    const size_t step = to_samples(step_s_);
    return std::max((heard_ / step + 1) * step, (to_samples(options_.first_step_s) + step - 1) / step * step);
}

int Stream::due() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return 0;
    const size_t step = to_samples(step_s_), next = next_grid_point();
    const size_t end = finished_.value_or(received_);
    // A grid point at the very end is the final step's business.
    const bool reached = finished_ ? end > next : end >= next;
    const int waiting = reached ? static_cast<int>((end - next - (finished_ ? 1 : 0)) / step) + 1 : 0;
    return waiting + (finished_ || audio_taken_ ? 1 : 0);
}

void Stream::take_audio() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (audio_taken_) return;
    audio_taken_ = true;
    const size_t next = next_grid_point(), end = finished_.value_or(received_);
    final_step_ = finished_ && end <= next;
    const size_t target = final_step_ ? end : std::min(next, end);
    if (target < heard_ && context_samples_ + target > (window_start_ + kShortestWindow) * Model::kHop) {
        mel_.truncate(context_samples_ + target);
    }
    const size_t count = target - std::min(target, heard_);
    mel_.push(waiting_.data(), count);
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
    heard_ = target;
}

void Stream::begin_step(Encoder& encoder, Pool<CrossCache>& caches, Pool<Lane>& lanes) {
    if (aborted_) throw Aborted("aborted");
    take_audio();
    const size_t end = (context_samples_ + heard_ + Model::kHop - 1) / Model::kHop;
    const size_t start = std::max(window_start_, context_samples_ / Model::kHop);
    if (end <= start + kShortestWindow) return;  // nothing, or noise that is forgotten already
    const size_t hops = end - window_start_;
    const int audio = static_cast<int>((hops + 1) / 2);
    const int positions = Encoder::bucket(model_, audio + kTrailingSilence);
    cross_ = caches.take(model_);
    encoder.encode_window(mel_, window_start_, positions, *cross_);

    WindowOptions window;
    window.previous = prompt_;
    window.previous.insert(window.previous.end(), before_.begin(), before_.end());
    window.language_token = language_token_;
    window.translate = options_.translate;
    window.forced = committed_;
    window.given = context_tokens_;
    window.draft = previous_;
    window.stop_at_loop = true;
    window.max_tokens = most_tokens(hops * kSecondsPerHop);
    if (final_step_) window.temperatures = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f};
    if (anything_committed_) {  // only a loop is reason enough to say the rest otherwise
        window.logprob_threshold = -std::numeric_limits<float>::infinity();
        window.compression_ratio_threshold = std::numeric_limits<float>::infinity();
    }
    window_ = std::make_unique<WindowDecoding>(model_, *cross_, audio, lanes, std::move(window));
}

void Stream::cancel_step() {
    window_.reset();
    cross_.reset();
}

Stream::Hypothesis Stream::read(const WindowResult& window) const {
    Hypothesis hypothesis;
    hypothesis.tokens = window.tokens;
    hypothesis.looping = window.looping;
    if (window.looping) hypothesis.tokens.resize(std::max(window.loop_start, committed_.size()));
    const auto offset = static_cast<float>(to_utterance(window_start_));
    int text_tokens = 0;
    for (size_t i = 0; i < hypothesis.tokens.size(); ++i) {
        hypothesis.timed.push_back({hypothesis.tokens[i], offset + window.times[i].start,
                                    offset + window.times[i].end, std::exp(window.logprobs[i])});
        hypothesis.focus.push_back(offset + window.focus[i]);
        if (hypothesis.tokens[i] >= model_.token.eot) continue;
        hypothesis.avg_logprob += window.logprobs[i];
        ++text_tokens;
    }
    if (text_tokens > 0) hypothesis.avg_logprob /= static_cast<float>(text_tokens);
    return hypothesis;
}

StepResult Stream::end_step() {
    StepResult result;
    result.audio_s = to_seconds(heard_);
    result.language = language(language_token_);
    if (!window_) {
        result.no_speech = final_step_ && !anything_committed_;
        result.final = conclude(false);
        return result;
    }
    const WindowResult window = window_->result();
    cancel_step();
    const Hypothesis now = read(window);
    result.looping = now.looping;
    result.avg_logprob = now.avg_logprob;
    result.no_speech_prob = window.no_speech_prob;
    const bool heard_speech = window.speech_evident || (anything_committed_ && !rest_);
    const bool trusted = heard_speech && !now.looping && now.avg_logprob >= options_.least_avg_logprob;
    if (hear_otherwise(heard_speech, trusted)) {
        result.final = conclude(true);
        return result;
    }
    const size_t had = committed_.size();
    size_t commit = had;
    if (final_step_ && heard_speech) {
        commit = now.tokens.size();
    } else if (trusted && previous_trusted_) {
        commit = stable(now, window.language_token);
    }
    // Until something is committed, each hypothesis may find another language.
    if (language_token_ < 0) language_prob_ = window.language_prob;
    if (commit > had) language_token_ = window.language_token;
    result.language_prob = language_prob_;
    result.language = language(window.language_token);
    result.committed = text_of(now, had, commit);
    if (heard_speech) result.tentative = text_of(now, commit, now.tokens.size());
    committed_.assign(now.tokens.begin(), now.tokens.begin() + commit);
    previous_.assign(now.tokens.begin() + commit, now.tokens.end());
    previous_trusted_ = trusted;
    anything_committed_ = anything_committed_ || commit > had;

    result.final = conclude(final_step_ && heard_speech && hear_rest(now));
    result.no_speech = result.final && !anything_committed_;
    if (final_step_) {
        if (result.final) remember(now);
        return result;
    }
    if (heard_speech) {
        trim(now);
    } else {
        forget_noise();
    }
    return result;
}

/// Ends the step; with `again`, its audio is to be decoded once more. Whether the utterance is done.
bool Stream::conclude(bool again) {
    const std::lock_guard<std::mutex> lock(mutex_);
    audio_taken_ = again;
    done_ = final_step_ && !again;
    return done_;
}

/// Tokens from `first` to `end` without timestamps.
std::vector<TimedToken> Stream::text_of(const Hypothesis& now, size_t first, size_t end) const {
    std::vector<TimedToken> text;
    std::copy_if(now.timed.begin() + first, now.timed.begin() + end, std::back_inserter(text),
                 [this](const TimedToken& token) { return token.id < model_.token.eot; });
    for (TimedToken& token : text) {  // none is of the context, though it may look there
        token.start = std::max(0.0f, token.start);
        token.end = std::max(token.start, token.end);
    }
    return text;
}

/// How many tokens are certain: said by the last two hypotheses, and not by attending to the audio's very end. Marks
/// are held to be sure of: the model often wavers between a comma and a full stop where it knows all the words.
size_t Stream::stable(const Hypothesis& now, int language_token) const {
    std::vector<int> before;
    std::copy_if(previous_.begin(), previous_.end(), std::back_inserter(before),
                 [this](int token) { return token < model_.token.eot; });
    size_t count = committed_.size(), said = 0;
    for (size_t i = count; i < now.tokens.size(); ++i) {
        if (now.tokens[i] >= model_.token.eot) continue;
        const bool sure = now.timed[i].p >= options_.sure_p ||
                          is_closing_punctuation(model_.tokenizer.bytes(now.tokens[i]));
        const double distance = sure ? options_.attention_distance_s : options_.unsure_distance_s;
        if (said == before.size() || now.tokens[i] != before[said] || to_seconds(heard_) - now.focus[i] < distance) {
            break;
        }
        ++said;
        count = i + 1;
    }
    return std::max(committed_.size(), whole_words(now.tokens, count, language_token));
}

/// The most tokens, up to `count`, that end where a word does.
size_t Stream::whole_words(const std::vector<int>& tokens, size_t count, int language_token) const {
    const auto words = split_words(model_.tokenizer, {tokens.begin(), tokens.end()}, language(language_token));
    size_t whole = 0;
    for (size_t i = 0; i + 1 < words.size(); ++i) {  // what follows the last word is not known yet
        const size_t end = words[i].first_token + words[i].token_count;
        if (end <= count) whole = end;
    }
    return whole;
}

std::string Stream::language(int token) const {
    if (!model_.multilingual()) return "en";
    return token < 0 ? "" : model_.languages[token - model_.token.language(0)];
}

}  // namespace stenod::whisper
