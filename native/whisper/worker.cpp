#include "whisper/worker.h"

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "graph/stopwatch.h"
#include "model/scores.h"
#include "whisper/long_form.h"

namespace stenod::whisper {

namespace {

constexpr size_t kClipsAtOnce = 8;  // more share each pass over the weights, but each needs caches

}  // namespace

Worker::Worker(std::shared_ptr<const Model> model, int threads)
    : model_(std::move(model)), executor_(threads), encoder_(*model_, executor_), decoder_(*model_, executor_) {}

std::vector<Transcription> Worker::transcribe(const std::vector<Clip>& clips, const TranscribeOptions& options,
                                              const std::function<void(double)>& progress) {
    const Stopwatch stopwatch(busy_);
    aborted_ = false;
    executor_.set_should_stop([this] { return aborted_.load(); });
    std::vector<Transcription> results(clips.size());
    struct Job {
        size_t index;
        std::unique_ptr<LongForm> clip;
    };
    std::vector<Job> jobs;
    size_t next = 0;
    double finished = 0;
    while (true) {
        while (next < clips.size() && jobs.size() < kClipsAtOnce) {
            jobs.push_back({next, std::make_unique<LongForm>(*model_, clips[next].samples, clips[next].count, options)});
            ++next;
        }
        double done = finished;
        for (auto job = jobs.begin(); job != jobs.end();) {
            done += job->clip->seconds_done();
            if (!job->clip->done()) {
                ++job;
                continue;
            }
            finished += job->clip->seconds_done();
            results[job->index] = job->clip->result();
            job = jobs.erase(job);
        }
        if (progress) progress(done);
        if (jobs.empty() && next == clips.size()) return results;
        std::vector<WindowDecoding*> windows;
        for (Job& job : jobs) {
            job.clip->begin_window(encoder_, caches_, lanes_);
            windows.push_back(&job.clip->window());
        }
        decode_windows(decoder_, windows);
        for (Job& job : jobs) job.clip->end_window();
    }
}

std::vector<Worker::Outcome> Worker::step(const std::vector<stenod::Stream*>& all) {
    const Stopwatch stopwatch(busy_);
    aborted_ = false;
    const std::vector<Stream*> streams = of_model<Stream>(all, *model_);
    std::vector<Outcome> outcomes(streams.size());
    for (size_t i = 0; i < streams.size(); ++i) {
        try {
            begin(*streams[i]);
        } catch (const Error&) {
            streams[i]->cancel_step();
            outcomes[i] = std::current_exception();
        }
    }
    decode_steps(streams, outcomes);
    for (size_t i = 0; i < streams.size(); ++i) {
        if (std::holds_alternative<std::exception_ptr>(outcomes[i])) continue;
        outcomes[i] = streams[i]->end_step();
    }
    return outcomes;
}

void Worker::begin(Stream& stream) {
    executor_.set_should_stop([&] { return aborted_ || stream.aborted(); });
    stream.begin_step(encoder_, caches_, lanes_);
}

/// Who is aborted leaves the batch; the others' passes are tried again.
void Worker::decode_steps(const std::vector<Stream*>& streams, std::vector<Outcome>& outcomes) {
    std::vector<size_t> active;
    executor_.set_should_stop([&] {
        return aborted_ || std::any_of(active.begin(), active.end(), [&](size_t i) { return streams[i]->aborted(); });
    });
    while (true) {
        active.clear();
        std::vector<DecodeRequest*> requests;
        for (size_t i = 0; i < streams.size(); ++i) {
            WindowDecoding* window = streams[i]->window();
            if (!window || window->done()) continue;
            window->requests(requests);
            active.push_back(i);
        }
        if (active.empty()) return;
        try {
            decoder_.decode(requests);
        } catch (const Error&) {
            const bool all = aborted_ || std::none_of(active.begin(), active.end(),
                                                      [&](size_t i) { return streams[i]->aborted(); });
            for (size_t i : active) {
                if (!all && !streams[i]->aborted()) continue;
                streams[i]->cancel_step();
                outcomes[i] = std::current_exception();
            }
            continue;
        }
        for (size_t i : active) streams[i]->window()->advance();
    }
}

std::vector<float> Worker::detect_language(const Clip& clip) {
    if (!model_->multilingual()) return {};
    const int frames = 2 * model_->encoder.context;
    LogMelStream mel(model_->mel);
    mel.push(clip.samples, std::min<size_t>(clip.count, Model::kWindowSeconds * Model::kSampleRate));
    std::vector<float> window(static_cast<size_t>(frames) * model_->mel_bands);
    mel.window(0, frames, window.data());
    const std::vector<float> logits = decode(window.data(), frames, {model_->token.sot});
    const float* first = logits.data() + model_->token.language(0);
    std::vector<float> probabilities(first, first + model_->languages.size());
    const float total = logsumexp(probabilities.data(), probabilities.size());
    for (float& value : probabilities) value = std::exp(value - total);
    return probabilities;
}

void Worker::check_mel(int frames) const {
    if (frames % 2 != 0) throw BadArgument("mel: expected an even number of frames");
}

std::vector<float> Worker::encode(const float* mel, int frames, std::optional<int>) {
    check_mel(frames);
    aborted_ = false;
    executor_.set_should_stop([this] { return aborted_.load(); });
    const auto cross = caches_.take(*model_);
    return encoder_.encode_output(mel, frames / 2, *cross);
}

std::vector<float> Worker::decode(const float* mel, int frames, const std::vector<int>& tokens) {
    aborted_ = false;
    executor_.set_should_stop([this] { return aborted_.load(); });
    check_mel(frames);
    const auto cross = caches_.take(*model_);
    const auto lane = lanes_.take(*model_);
    lane->length = 0;
    encoder_.encode(mel, frames / 2, *cross);
    DecodeRequest request;
    request.lane = lane.get();
    request.cross = cross.get();
    request.tokens = tokens;
    decoder_.decode({&request});
    return std::move(request.logits);
}

Timings Worker::timings() const {
    const double encode = encoder_.seconds(), decode = executor_.seconds() - encode;
    return {encode, decode, busy_ - encode - decode};
}

}  // namespace stenod::whisper
