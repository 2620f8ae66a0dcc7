#include "parakeet/stream.h"

#include <algorithm>
#include <cmath>

#include "errors.h"

namespace stenod::parakeet {

namespace {

constexpr float kPhraseBonus = 1.5f;  // natural logarithm, for each token of a phrase

void append(std::vector<Token>& tokens, const std::vector<Token>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
}

double frame_s(int64_t frame) { return static_cast<double>(frame) * Model::kSecondsPerFrame; }

}  // namespace

Stream::Stream(const Model& model, StreamOptions options)
    : model_(model), timer_(model.pieces, Model::kSecondsPerFrame) {
    reset(std::move(options));
}

void Stream::check(const StreamOptions& options) const {
    if (options.translate) throw BadArgument("task: the model does not translate");
    const auto& known = model_.languages;
    if (!options.language.empty() && !known.empty() &&
        std::find(known.begin(), known.end(), options.language) == known.end()) {
        throw BadArgument("language: '" + options.language + "' is not one of the model's " +
                          std::to_string(known.size()) + " languages");
    }
}

void Stream::reset(std::optional<StreamOptions> options) {
    if (options) {
        check(*options);
        SearchOptions search;
        search.beam = options->beam_size;
        if (!options->phrases.empty()) {
            search.phrases = std::make_shared<const PhraseTree>(model_.pieces, options->phrases, kPhraseBonus);
        }
        Search checked(model_.head, search);
        std::unique_ptr<Input> input = make_input(model_, *options);
        const std::lock_guard<std::mutex> lock(mutex_);
        options_ = std::move(*options);
        search_options_ = std::move(search);
        input_ = std::move(input);
    }
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        waiting_.clear();
        received_ = 0;
        finished_.reset();
        chunks_ = 1;
        stepping_ = false;
        input_->reset();
        done_ = false;
    }
    search_.emplace(model_.head, search_options_);
    timer_ = TokenTimer(model_.pieces, Model::kSecondsPerFrame);
    heard_ = committed_ = 0;
    sum_logprob_ = 0;
    held_.clear();
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

double Stream::audio_s() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<double>(received_) / Model::kSampleRate;
}

double Stream::step_s() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return frame_s(static_cast<int64_t>(chunks_) * input_->chunk());
}

void Stream::coarsen(double factor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    chunks_ = std::max(1, static_cast<int>(std::lround(std::min(factor, 1000.0))));
}

int Stream::due() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return 0;
    const size_t end = finished_.value_or(received_), needed = input_->needed(chunks_);
    const size_t step = static_cast<size_t>(chunks_) * static_cast<size_t>(input_->chunk()) * Model::kFrameSamples;
    const int waiting = end >= needed ? static_cast<int>((end - needed) / step) + 1 : 0;
    return waiting + (finished_ || stepping_ ? 1 : 0);
}

/// Chooses what the step hears, and takes it out of what waits.
std::vector<float> Stream::take_audio() {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = finished_.value_or(received_);
    step_chunks_ = chunks_;
    while (step_chunks_ > 1 && !finished_ && input_->needed(step_chunks_) > end_) --step_chunks_;
    const size_t needed = input_->needed(step_chunks_);
    if (needed > end_ && !finished_) throw BadArgument("streams: one is stepped that is not due");
    final_step_ = needed > end_;
    const size_t target = std::max(heard_, final_step_ ? end_ : needed);
    std::vector<float> samples(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(target - heard_));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(samples.size()));
    heard_ = target;
    stepping_ = true;
    return samples;
}

Search& Stream::lookahead_search() {
    lookahead_search_ = next_search_;
    lookahead_search_->take_committed();  // the chunk's own
    return *lookahead_search_;
}

void Stream::begin_step() {
    if (aborted_) throw Aborted("aborted");
    if (!stepping_) {
        const std::vector<float> samples = take_audio();
        input_->push(samples.data(), samples.size());
        chunk_ = input_->take(step_chunks_, final_step_, end_);
    }
    next_search_ = search_;
    lookahead_search_.reset();
}

/// Tokens of the held ones that are settled: whole words, and whatever ends with the speaker's turn.
size_t Stream::commit_count() const {
    if (final_step_) return held_.size();
    size_t count = whole_words(model_.pieces, held_);
    for (size_t i = count; i < held_.size(); ++i) {
        if (model_.pieces.is_end_of_utterance(held_[i].id)) count = i + 1;
    }
    return count;
}

/// What lies beyond the utterance's end belongs to the next one, if it was heard before the end was known.
void Stream::drop_tokens_from(double seconds) {
    held_.erase(std::find_if(held_.begin(), held_.end(), [&](const Token& token) { return frame_s(token.frame) >= seconds; }),
                held_.end());
}

StepResult Stream::end_step() {
    search_ = std::move(next_search_);
    if (final_step_) search_->finish();
    append(held_, search_->take_committed());
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        input_->advance();
        stepping_ = false;
        done_ = final_step_;
    }
    const double heard_s = static_cast<double>(final_step_ ? end_ : heard_) / Model::kSampleRate;
    if (final_step_) drop_tokens_from(heard_s);

    StepResult result;
    std::vector<Token> settled;
    for (size_t count = commit_count(); count > 0; --count) {
        const Token token = held_.front();
        held_.erase(held_.begin());
        const bool ends_turn = model_.pieces.is_end_of_utterance(token.id);
        result.end_of_turn = result.end_of_turn || ends_turn;
        if (!ends_turn) settled.push_back(token);
    }
    for (const Token& token : settled) sum_logprob_ += token.logprob;
    committed_ += settled.size();
    result.committed = timer_.time(settled);
    if (!final_step_) {
        std::vector<Token> tentative = held_;
        if (lookahead_search_) append(tentative, lookahead_search_->take_committed());
        append(tentative, (lookahead_search_ ? lookahead_search_ : search_)->tentative());
        result.tentative = TokenTimer(timer_).time(tentative);
    }
    result.audio_s = heard_s;
    result.final = final_step_;
    result.no_speech = final_step_ && committed_ == 0;
    if (model_.languages.size() == 1) {
        result.language = model_.languages.front();
        result.language_prob = 1;
    }
    result.avg_logprob = committed_ > 0 ? static_cast<float>(sum_logprob_ / static_cast<double>(committed_)) : 0.0f;
    return result;
}

}  // namespace stenod::parakeet
