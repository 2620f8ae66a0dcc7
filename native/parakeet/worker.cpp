#include "parakeet/worker.h"

#include <algorithm>

#include "errors.h"
#include "graph/stopwatch.h"
#include "parakeet/segments.h"

namespace stenod::parakeet {

namespace {

constexpr size_t kClipsAtOnce = 8;     // share each pass over the weights
constexpr int kFramesAtOnce = 256;     // of a clip, where the model is cache-aware
constexpr double kWindowS = 300;       // else a clip is encoded whole, or in windows of this length
constexpr double kContextS = 10;       // that overlap by this on both sides
constexpr size_t kPiece = 20 * Model::kSampleRate;  // of a clip's samples, given to its stream at once

StreamOptions stream_options(const TranscribeOptions& options) {
    StreamOptions chosen;
    chosen.language = options.language;
    chosen.translate = options.translate;
    chosen.phrases = options.phrases;
    chosen.beam_size = options.beam_size;
    chosen.left_s = chosen.lookahead_s = kContextS;
    chosen.chunk_s = kWindowS;
    return chosen;
}

/// One clip on its way to a transcription.
struct Job {
    size_t index;
    Clip rest;  ///< what the stream has not been given yet
    std::unique_ptr<Stream> stream;
    std::vector<TimedToken> tokens;

    /// Gives the stream what its next step needs.
    void feed() {
        while (stream->due() == 0) {
            const size_t count = std::min(rest.count, kPiece);
            stream->push(rest.samples, count);
            rest = {rest.samples + count, rest.count - count};
            if (rest.count == 0) stream->finish(std::nullopt);
        }
    }
};

}  // namespace

Worker::Worker(std::shared_ptr<const Model> model, int threads)
    : model_(std::move(model)), executor_(threads), encoder_(*model_, executor_), head_(model_->head, executor_) {}

std::vector<Transcription> Worker::transcribe(const std::vector<Clip>& clips, const TranscribeOptions& options,
                                              const std::function<void(double)>& progress) {
    const Stopwatch stopwatch(busy_);
    aborted_ = false;
    executor_.set_should_stop([this] { return aborted_.load(); });
    std::vector<Transcription> results(clips.size());
    std::vector<Job> jobs;
    size_t next = 0;
    double finished_s = 0;
    while (next < clips.size() || !jobs.empty()) {
        for (; next < clips.size() && jobs.size() < kClipsAtOnce; ++next) {
            Job& job = jobs.emplace_back(
                Job{next, clips[next], std::make_unique<Stream>(*model_, stream_options(options)), {}});
            if (model_->cache_aware) job.stream->coarsen(kFramesAtOnce * Model::kSecondsPerFrame / job.stream->step_s());
        }
        std::vector<Stream*> streams;
        for (Job& job : jobs) {
            job.feed();
            job.stream->begin_step();
            streams.push_back(job.stream.get());
        }
        advance_streams(streams);
        double done_s = finished_s;
        for (auto job = jobs.begin(); job != jobs.end();) {
            const StepResult step = job->stream->end_step();
            job->tokens.insert(job->tokens.end(), step.committed.begin(), step.committed.end());
            done_s += step.audio_s;
            if (!step.final) {
                ++job;
                continue;
            }
            finished_s += step.audio_s;
            results[job->index] = {step.language, step.audio_s, step.no_speech, segments_of(*model_, job->tokens)};
            job = jobs.erase(job);
        }
        if (progress) progress(done_s);
    }
    return results;
}

/// Who is aborted leaves the batch; the others' step is tried again.
std::vector<Worker::Outcome> Worker::step(const std::vector<stenod::Stream*>& all) {
    const Stopwatch stopwatch(busy_);
    aborted_ = false;
    const std::vector<Stream*> streams = of_model<Stream>(all, *model_);
    std::vector<Outcome> outcomes(streams.size());
    std::vector<size_t> active(streams.size());
    for (size_t i = 0; i < streams.size(); ++i) active[i] = i;
    executor_.set_should_stop([&] {
        return aborted_ || std::any_of(active.begin(), active.end(), [&](size_t i) { return streams[i]->aborted(); });
    });
    const auto drop = [&](auto&& fails) {
        active.erase(std::remove_if(active.begin(), active.end(),
                                    [&](size_t i) {
                                        if (!fails(i)) return false;
                                        outcomes[i] = std::current_exception();
                                        return true;
                                    }),
                     active.end());
    };
    for (size_t i = 0; i < streams.size(); ++i) {
        try {
            streams[i]->begin_step();
        } catch (const Error&) {
            drop([i](size_t other) { return other == i; });
        }
    }
    while (!active.empty()) {
        std::vector<Stream*> batch;
        for (size_t i : active) batch.push_back(streams[i]);
        try {
            for (Stream* stream : batch) stream->begin_step();
            advance_streams(batch);
            break;
        } catch (const Error&) {
            const bool one = !aborted_ && std::any_of(active.begin(), active.end(),
                                                      [&](size_t i) { return streams[i]->aborted(); });
            drop([&](size_t i) { return !one || streams[i]->aborted(); });
        }
    }
    for (size_t i : active) outcomes[i] = streams[i]->end_step();
    return outcomes;
}

/// Encodes the streams' chunks and lets their searches hear them, together.
void Worker::advance_streams(const std::vector<Stream*>& streams) {
    std::vector<Stream*> heard;
    std::vector<EncodeRequest*> requests;
    for (Stream* stream : streams) {
        if (stream->chunk().count == 0) continue;
        heard.push_back(stream);
        requests.push_back(&stream->chunk().request);
    }
    if (heard.empty()) return;
    encoder_.encode(requests);
    std::vector<float> frames;
    for (Stream* stream : heard) {
        const Chunk& chunk = stream->chunk();
        const auto width = static_cast<size_t>(model_->encoder.width);
        const auto begin = chunk.request.encoded.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(chunk.first) * width);
        frames.insert(frames.end(), begin,
                      begin + static_cast<std::ptrdiff_t>(static_cast<size_t>(chunk.count + chunk.lookahead) * width));
    }
    const std::vector<float> projected =
        head_.project(frames.data(), static_cast<int>(frames.size() / static_cast<size_t>(model_->encoder.width)));
    hear(heard, projected, false);
    hear(heard, projected, true);
}

void Worker::hear(const std::vector<Stream*>& streams, const std::vector<float>& projected, bool lookahead) {
    const auto width = static_cast<size_t>(model_->head.frame_width());
    std::vector<SearchStep> steps;
    const float* frames = projected.data();
    for (Stream* stream : streams) {
        const Chunk& chunk = stream->chunk();
        if (!lookahead) {
            steps.push_back({&stream->next_search(), frames, chunk.count});
        } else if (chunk.lookahead > 0) {
            steps.push_back({&stream->lookahead_search(), frames + static_cast<size_t>(chunk.count) * width, chunk.lookahead});
        }
        frames += static_cast<size_t>(chunk.count + chunk.lookahead) * width;
    }
    advance(head_, steps);
}

std::vector<float> Worker::encode(const float* mel, int frames, std::optional<int> lookahead_ms) {
    aborted_ = false;
    executor_.set_should_stop([this] { return aborted_.load(); });
    const int bands = model_->encoder.bands;
    std::vector<float> rows(static_cast<size_t>(frames) * static_cast<size_t>(bands));
    for (int i = 0; i < frames; ++i) {
        for (int band = 0; band < bands; ++band) {
            rows[static_cast<size_t>(i * bands + band)] = mel[static_cast<size_t>(band) * static_cast<size_t>(frames) + static_cast<size_t>(i)];
        }
    }
    EncodeRequest request;
    std::optional<EncoderCache> cache;
    request.mel = {rows.data(), 0, frames, true};
    request.count = static_cast<int>(frames_at_end(*model_, frames));
    if (model_->cache_aware) request.cache = &cache.emplace(*model_, context_for(*model_, lookahead_ms));
    encoder_.encode({&request});
    return std::move(request.encoded);
}

std::vector<float> Worker::decode(const float*, int, const std::vector<int>&) {
    throw BadArgument("decode: a transducer has no logits of tokens alone");
}

std::vector<float> Worker::detect_language(const Clip&) { return {}; }

Timings Worker::timings() const {
    const double encode = encoder_.seconds(), decode = executor_.seconds() - encode;
    return {encode, decode, busy_ - encode - decode};
}

}  // namespace stenod::parakeet
