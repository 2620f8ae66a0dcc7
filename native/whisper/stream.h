#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "audio/log_mel.h"
#include "engine.h"
#include "whisper/encoder.h"
#include "whisper/long_form.h"
#include "whisper/window.h"

namespace stenod::whisper {

/// The state of one utterance: its audio, what of its text is committed, and the last hypothesis.
///
/// Hypotheses are made at fixed points of the utterance's own time, each from exactly the audio up to that point,
/// so that the text depends neither on how the audio was cut into pushes nor on when steps were run.
///
/// `push`, `finish`, `due`, `audio_s` and `abort` are safe while another thread steps; steps are run by one thread at a
/// time: while due(), `begin_step`, decode `window()` if there is one, `end_step`.
class Stream final : public stenod::Stream {
public:
    /// Throws BadArgument naming the option.
    Stream(const Model& model, StreamOptions options);

    void push(const float* samples, size_t count) override;
    void finish(std::optional<size_t> samples) override;
    void reset(std::optional<StreamOptions> options) override;
    int due() const override;
    double audio_s() const override;
    double step_s() const override;
    void coarsen(double factor) override;
    Context context() const override { return next_context_; }
    const Model& model() const override { return model_; }

    void begin_step(Encoder& encoder, Pool<CrossCache>& caches, Pool<Lane>& lanes);
    /// Null where the step needs no decoding.
    WindowDecoding* window() { return window_.get(); }
    StepResult end_step();
    /// Gives up the step: the next one does it again.
    void cancel_step();

private:
    static constexpr double kSecondsPerHop = static_cast<double>(Model::kHop) / Model::kSampleRate;
    static constexpr size_t kMostBefore = 223;  ///< tokens: Whisper is conditioned by no more

    static double to_seconds(size_t samples) { return static_cast<double>(samples) / Model::kSampleRate; }

    /// A hypothesis' text: the window's committed tokens first.
    struct Hypothesis {
        std::vector<int> tokens;
        std::vector<TimedToken> timed;
        std::vector<double> focus;  ///< seconds of the utterance
        bool looping = false;
        /// Mean of the text alone: a forced timestamp that has become improbable would make good text look bad.
        float avg_logprob = 0;
    };

    void check(const StreamOptions& options) const;
    size_t next_grid_point() const;
    void take_audio();
    Hypothesis read(const WindowResult& window) const;
    std::vector<TimedToken> text_of(const Hypothesis& now, size_t first, size_t end) const;
    size_t stable(const Hypothesis& now, int language_token) const;
    size_t whole_words(const std::vector<int>& tokens, size_t count, int language_token) const;
    bool conclude(bool again);
    std::string language(int token) const;

    // In stream_window.cpp.
    double window_s() const;
    double to_utterance(size_t hop) const;
    size_t to_hop(double seconds) const;
    void trim(const Hypothesis& now);
    void start_window(size_t hop, size_t token, double first_word_s);
    void forget_noise();
    bool hear_rest(const Hypothesis& now);
    void recall();
    bool hear_otherwise(bool heard_speech, bool trusted);
    void remember(const Hypothesis& now);

    const Model& model_;
    StreamOptions options_;
    int language_token_ = -1;
    float language_prob_ = 0;
    std::vector<int> prompt_;

    mutable std::mutex mutex_;         ///< guards the four below
    std::vector<float> waiting_;       ///< pushed, not yet heard by a hypothesis
    size_t received_ = 0;              ///< samples of the utterance
    std::optional<size_t> finished_;   ///< samples at which it ends
    double step_s_;

    LogMelStream mel_;                 ///< of the context and the utterance
    size_t context_samples_ = 0;       ///< in mel_, before those of the utterance
    size_t heard_ = 0;                 ///< samples of the utterance in mel_
    size_t window_start_ = 0;          ///< hops of mel_
    bool audio_taken_ = false;         ///< for a step that has not ended; guarded too
    bool final_step_ = false, done_ = false;
    std::vector<int> before_;          ///< committed tokens before the window
    std::vector<int> committed_;       ///< committed tokens in the window, timestamps included
    size_t context_tokens_ = 0;        ///< of those, how many are the context's
    int in_vain_ = 0;                  ///< hypotheses after the context that cannot be trusted
    Context next_context_;             ///< of the utterance that is finished
    std::vector<int> previous_;        ///< last hypothesis, beyond the committed tokens
    bool previous_trusted_ = false;
    bool anything_committed_ = false;
    bool rest_ = false;                ///< the window holds only what is left when the text seemed to be complete
    Pool<CrossCache>::Pointer cross_;
    std::unique_ptr<WindowDecoding> window_;
};

}  // namespace stenod::whisper
