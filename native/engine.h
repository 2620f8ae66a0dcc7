#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/executor.h"
#include "whisper/decoder.h"
#include "whisper/encoder.h"
#include "whisper/long_form.h"
#include "whisper/model.h"
#include "whisper/stream.h"

namespace stenod {

/// Reads a model file of any family that the engine knows. Throws BadModel, OutOfMemory.
std::shared_ptr<const whisper::Model> load_model(const std::string& path);

/// Seconds spent since the worker was made.
struct Timings {
    double encode = 0;
    double decode = 0;
    double other = 0;  ///< mel, rules, search, alignment
};

/// Samples of one clip.
struct Clip {
    const float* samples;
    size_t count;
};

/// Threads, scratch memory and graphs for one model. Used by one thread at a time, but for `abort`.
class Worker {
public:
    Worker(std::shared_ptr<const whisper::Model> model, int threads);

    /// Transcribes clips in common batches; each as if it were alone. `progress` gets the seconds done.
    std::vector<whisper::Transcription> transcribe(const std::vector<Clip>& clips,
                                                   const whisper::TranscribeOptions& options,
                                                   const std::function<void(double)>& progress);

    using Outcome = std::variant<whisper::StepResult, std::exception_ptr>;
    /// Advances each stream by one step, all in one batch. A stream's failure is its own.
    std::vector<Outcome> step(const std::vector<whisper::Stream*>& streams);

    /// Probability of each language, in the model's order.
    std::vector<float> detect_language(const Clip& clip);
    /// Encoder output [frames / 2][width] of a normalised log-mel [mel_bands][frames].
    std::vector<float> encode(const float* mel, int frames);
    /// Logits [tokens][vocabulary] of forced tokens.
    std::vector<float> decode(const float* mel, int frames, const std::vector<int>& tokens);

    /// From any thread: what computes now ends with Aborted.
    void abort() { aborted_ = true; }
    Timings timings() const;

    const whisper::Model& model() const { return *model_; }
    int threads() const { return executor_.threads(); }

private:
    class Stopwatch;
    void begin(whisper::Stream& stream);
    void decode_steps(const std::vector<whisper::Stream*>& streams, std::vector<Outcome>& outcomes);

    std::shared_ptr<const whisper::Model> model_;
    Executor executor_;
    whisper::Encoder encoder_;
    whisper::Decoder decoder_;
    whisper::Pool<whisper::CrossCache> caches_;
    whisper::Pool<whisper::Lane> lanes_;
    std::atomic<bool> aborted_{false};
    double busy_ = 0;  ///< seconds within `transcribe` and `step`
};

}  // namespace stenod
