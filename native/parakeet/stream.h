#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine.h"
#include "parakeet/input.h"
#include "parakeet/search.h"
#include "parakeet/words.h"

namespace stenod::parakeet {

/// The state of one utterance: what is kept of its audio, the encoder's caches, the search, and the tokens of the word that
/// is not complete. What the search has found is committed when the next word begins, or the utterance ends.
///
/// Steps are run by one thread at a time: while due(), `begin_step`, encode and search what `chunk()` and `next_search()`
/// say, `end_step`. A step that was begun and not ended is begun anew by the next `begin_step`.
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
    const Model& model() const override { return model_; }

    /// Throws Aborted.
    void begin_step();
    Chunk& chunk() { return chunk_; }
    /// The search that is to hear the chunk.
    Search& next_search() { return *next_search_; }
    /// The search that is to hear the look-ahead, once the chunk was heard.
    Search& lookahead_search();
    StepResult end_step();

private:
    std::vector<float> take_audio();
    size_t commit_count() const;
    void drop_tokens_from(double seconds);
    void check(const StreamOptions& options) const;

    const Model& model_;
    StreamOptions options_;
    SearchOptions search_options_;

    mutable std::mutex mutex_;        ///< guards the six below, and when `input_` advances
    std::vector<float> waiting_;      ///< pushed, and not yet heard
    size_t received_ = 0;             ///< samples of the utterance
    std::optional<size_t> finished_;  ///< samples at which it ends
    int chunks_ = 1;                  ///< of a step
    bool stepping_ = false;           ///< a step was begun and has not ended
    bool done_ = false;

    std::unique_ptr<Input> input_;
    size_t heard_ = 0;                ///< samples
    size_t end_ = 0;                  ///< samples of the utterance when the step began
    int step_chunks_ = 1;
    bool final_step_ = false;
    Chunk chunk_;
    std::optional<Search> search_, next_search_, lookahead_search_;
    TokenTimer timer_;
    std::vector<Token> held_;         ///< found, and not committed
    double sum_logprob_ = 0;          ///< of all tokens committed
    size_t committed_ = 0;            ///< tokens
};

}  // namespace stenod::parakeet
