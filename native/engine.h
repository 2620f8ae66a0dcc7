#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "errors.h"

// What every model family is to those who use it. A family is a folder: its Model, Stream and Worker derive from these.

namespace stenod {

/// A token of text with its place in the audio, in seconds.
struct TimedToken {
    int id;
    float start, end;
    float p;
};

struct Segment {
    float start = 0, end = 0;
    std::vector<TimedToken> tokens;
    float avg_logprob = 0, no_speech_prob = 0, compression_ratio = 0, temperature = 0;
};

struct Transcription {
    std::string language;  ///< empty where the model does not tell
    double duration = 0;
    bool no_speech = false;
    std::vector<Segment> segments;
};

/// What one step of a stream brought.
struct StepResult {
    std::vector<TimedToken> committed;  ///< new: to be appended
    std::vector<TimedToken> tentative;  ///< replaces the former
    double audio_s = 0;                 ///< of the utterance, heard so far
    bool final = false;
    bool no_speech = false;
    bool looping = false;
    bool end_of_turn = false;           ///< the model heard that the speaker has finished
    std::string language;               ///< empty where the model does not tell
    float language_prob = 0;
    float avg_logprob = 0, no_speech_prob = 0;
};

/// How a whole recording is transcribed. What a family does not have is without effect.
struct TranscribeOptions {
    std::string language;              ///< empty: detect
    bool translate = false;
    int beam_size = 1;
    std::vector<std::string> phrases;  ///< that are likely to occur

    // Whisper
    std::string prompt;  ///< text that may have come before
    bool timestamps = true;
    int best_of = 5;
    std::vector<float> temperatures{0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f};
    bool condition_on_previous_text = false;
    float compression_ratio_threshold = 2.4f, logprob_threshold = -1.0f, no_speech_threshold = 0.6f;
    bool full_window = false;     ///< the encoder always sees 30 s
    bool speech_evidence = true;  ///< text without evidence of a voice is dropped
    uint64_t seed = 0;
};

/// The end of an utterance, with which the one that follows is understood better. Families that do not use it ignore it.
struct Context {
    std::vector<int16_t> samples;
    std::vector<int> tokens;  ///< all that is said in it
};

/// How a stream decodes, and when it commits: the one place of the streaming policy. What a family does not have is
/// without effect.
struct StreamOptions {
    std::string language;  ///< empty: detect
    bool translate = false;

    // Whisper
    bool language_guessed = false;      ///< if nothing is understood in `language`, another is tried in the end
    std::string prompt;                 ///< text that may have come before
    double step_s = 0.4;                ///< audio time between hypotheses that may commit
    double first_step_s = 0.8;          ///< audio that the first hypothesis of an utterance has at least
    double attention_distance_s = 0.4;  ///< a committed token looks at least so far back from the audio's end
    float sure_p = 0.8f;                ///< and one that is less probable than this (but marks),
    double unsure_distance_s = 1.5;     ///< so far
    double trim_after_s = 8.0;          ///< a window longer than this is cut behind committed text
    double keep_s = 2.0;                ///< committed audio that stays in a window that is cut
    Context context;                    ///< what was said before; ignored if the language is to be detected
    double context_s = 8.0;             ///< that a stream remembers for the utterance that follows, at most
    float least_avg_logprob = -1.0f;    ///< a hypothesis below this commits nothing

    // Parakeet
    std::vector<std::string> phrases;  ///< that are likely to occur
    int beam_size = 1;
    std::optional<int> lookahead_ms;   ///< audio that a word waits for, at most; empty: the model's best
    double left_s = 10.0;              ///< of a model without caches: what is encoded again before a chunk,
    double chunk_s = 2.0;              ///< the audio of a step,
    double lookahead_s = 2.0;          ///< and what is heard after it, unless lookahead_ms says so
};

/// Seconds spent since a worker was made.
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

class Model;

/// The state of one utterance. `push`, `finish`, `due`, `audio_s` and `abort` are safe while another thread steps.
class Stream {
public:
    virtual ~Stream() = default;

    /// Copies audio in and returns at once. Throws BadArgument if the utterance is finished.
    virtual void push(const float* samples, size_t count) = 0;
    /// The utterance ends here, or after `samples` of it.
    virtual void finish(std::optional<size_t> samples) = 0;
    /// Forgets the utterance, and clears an abort. Throws BadArgument naming the option.
    virtual void reset(std::optional<StreamOptions> options) = 0;
    /// Of the utterance that is finished, for the one that follows; empty if there is none.
    virtual Context context() const { return {}; }
    /// Steps that are waiting.
    virtual int due() const = 0;
    /// Seconds of audio pushed.
    virtual double audio_s() const = 0;
    /// Seconds of audio from step to step.
    virtual double step_s() const = 0;
    /// `factor` times as much audio from step to step from the next step on; at least 1.
    virtual void coarsen(double factor) = 0;
    /// The step that runs ends with Aborted within a layer's time.
    void abort() { aborted_ = true; }
    bool aborted() const { return aborted_; }

    virtual const Model& model() const = 0;

protected:
    std::atomic<bool> aborted_{false};
};

/// Threads, scratch memory and graphs for one model. Used by one thread at a time, but for `abort`.
class Worker {
public:
    virtual ~Worker() = default;

    /// Transcribes clips in common batches; each as if it were alone. `progress` gets the seconds done.
    virtual std::vector<Transcription> transcribe(const std::vector<Clip>& clips, const TranscribeOptions& options,
                                                  const std::function<void(double)>& progress) = 0;

    using Outcome = std::variant<StepResult, std::exception_ptr>;
    /// Advances each stream of this model by one step, all in one batch. A stream's failure is its own.
    virtual std::vector<Outcome> step(const std::vector<Stream*>& streams) = 0;

    /// Encoder output [frames][width] of a log-mel [mel_bands][frames] as of `Model::log_mel`; `lookahead_ms` as of
    /// StreamOptions.
    virtual std::vector<float> encode(const float* mel, int frames, std::optional<int> lookahead_ms) = 0;
    /// Logits [tokens][vocabulary] of forced tokens. Throws BadArgument where the family has no such thing.
    virtual std::vector<float> decode(const float* mel, int frames, const std::vector<int>& tokens) = 0;
    /// Probability of each language, in the model's order; none where the model cannot tell.
    virtual std::vector<float> detect_language(const Clip& clip) = 0;

    /// From any thread: what computes now ends with Aborted.
    void abort() { aborted_ = true; }
    virtual Timings timings() const = 0;
    virtual int threads() const = 0;
    virtual const Model& model() const = 0;

protected:
    std::atomic<bool> aborted_{false};
};

/// Immutable weights, vocabulary and front-end parameters; may be used from many threads.
class Model : public std::enable_shared_from_this<Model> {
public:
    static constexpr int kSampleRate = 16000;

    virtual ~Model() = default;

    std::string name;
    int mel_bands = 0;
    size_t weight_bytes = 0;
    size_t parameters = 0;

    virtual std::string family() const = 0;
    /// Codes of the languages that it knows; empty: nothing is known of them.
    virtual std::vector<std::string> language_codes() const = 0;
    /// Whether it tells when a speaker has finished, see StepResult.
    virtual bool tells_end_of_turn() const = 0;
    /// Sizes and types, by name.
    virtual std::map<std::string, std::variant<std::string, int64_t>> info() const = 0;
    /// Width of the encoder's output.
    virtual int width() const = 0;

    virtual std::vector<int> tokenize(const std::string& text) const = 0;
    /// Throws BadArgument if the token is not in the vocabulary.
    virtual std::string token_bytes(int id) const = 0;
    /// Normalised log-mel [mel_bands][frames] of the clip, padded or cut to so many frames; 0: as many as the clip has, or
    /// the window that the model needs.
    virtual std::vector<float> log_mel(const Clip& clip, int frames) const = 0;

    /// Throws BadArgument naming the option that the model cannot follow.
    virtual std::unique_ptr<Stream> make_stream(const StreamOptions& options) const = 0;
    virtual std::unique_ptr<Worker> make_worker(int threads) const = 0;
};

/// The streams as their family's own. Throws BadArgument if one is of another model.
template <typename Own>
std::vector<Own*> of_model(const std::vector<Stream*>& streams, const Model& model) {
    std::vector<Own*> own;
    for (Stream* stream : streams) {
        if (&stream->model() != &model) throw BadArgument("streams: one is of another model");
        own.push_back(static_cast<Own*>(stream));
    }
    return own;
}

/// Reads a model file of any family that the engine knows. Throws BadModel, OutOfMemory.
std::shared_ptr<const Model> load_model(const std::string& path);

}  // namespace stenod
