#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "whisper/alignment.h"
#include "whisper/decoder.h"
#include "whisper/pool.h"
#include "whisper/rules.h"

namespace stenod::whisper {

/// How one window of audio is decoded.
struct WindowOptions {
    std::vector<int> previous;      ///< text that came before: conditions, is not repeated; clipped to its newest part
    int language_token = -1;        ///< -1: detected, or none in an English-only model
    bool translate = false;
    bool timestamps = true;
    std::vector<int> forced;        ///< text that the hypothesis must begin with
    size_t given = 0;               ///< of those, how many are of an utterance before, and tell nothing of this one
    std::vector<int> draft;         ///< guess of what follows: what proves right costs no pass of its own
    std::vector<float> temperatures{0.0f};  ///< tried in this order until the text is plausible
    int beam_size = 1;
    int best_of = 5;                ///< hypotheses sampled at temperatures above 0
    int max_tokens = 224;
    bool stop_at_loop = false;      ///< ends a hypothesis that repeats itself
    bool speech_evidence = true;    ///< no further tiers for text without evidence of a voice
    float compression_ratio_threshold = 2.4f, logprob_threshold = -1.0f, no_speech_threshold = 0.6f;
    uint64_t seed = 0;
};

/// What was decoded.
struct WindowResult {
    std::vector<int> tokens;        ///< forced ones included; no end of text
    std::vector<float> logprobs;    ///< of each token
    float avg_logprob = 0;          ///< end of text counted, as OpenAI does
    float no_speech_prob = 0;
    float compression_ratio = 0;
    float temperature = 0;
    int language_token = -1;
    float language_prob = 1;
    bool ended = false;             ///< the model said that the text ends; else it was stopped
    bool looping = false;
    size_t loop_start = 0;          ///< if looping: the first token that repeats what was told
    bool speech_evident = false;
    std::vector<TokenTime> times;   ///< of each token, seconds from the window's start
    std::vector<float> focus;       ///< where each token looked most, seconds from the window's start
};

/// One sequence of tokens in the making, and what predicts its next one.
struct Branch {
    Pool<Lane>::Pointer lane;
    std::vector<int> tokens;
    std::vector<float> logprobs;
    double sum_logprob = 0;
    std::vector<std::shared_ptr<const std::vector<float>>> attention;  ///< [heads][positions] of each predicting row
    std::vector<float> next_logits;
    std::shared_ptr<const std::vector<float>> next_attention;
    bool ended = false, stopped = false, looping = false;
    DecodeRequest request;

    bool done() const { return ended || stopped; }
    /// Everything but the lane, which becomes `own_lane`.
    Branch fork(Pool<Lane>::Pointer own_lane) const;
};

/// The decoding of one window as a series of passes, so that several windows can share them:
/// while not done(), decode what `requests` gives, then `advance`.
class WindowDecoding {
public:
    /// `cross` holds the encoded window, of which the first `frames` positions are audio.
    WindowDecoding(const Model& model, const CrossCache& cross, int frames, Pool<Lane>& lanes, WindowOptions options);

    bool done() const { return stage_ == Stage::done; }
    void requests(std::vector<DecodeRequest*>& out);
    void advance();
    /// Once done.
    WindowResult result() const;

private:
    enum class Stage { detect, prefill, extend, done };

    void start();
    void request_prefill();
    void take_sot_row(const float* logits);
    void take_prefill();
    void start_tier();
    void verify_draft(Branch& branch);
    void choose(Branch& branch);
    void append(Branch& branch, int token, float logprob);
    void extend_lanes();
    void extend_beams();
    void finish_tier();
    bool plausible(const Branch& branch) const;
    bool evident(const Branch& branch) const;
    bool worth_another_tier() const;
    double score(const Branch& branch) const;
    size_t loop_start(const Branch& branch) const;
    float average(const Branch& branch) const;
    void set_next(Branch& branch, const DecodeRequest& request, int output) const;
    std::vector<int> text_tokens(const Branch& branch) const;
    std::string text(const Branch& branch) const;
    bool beams() const { return options_.beam_size > 1 && temperature() == 0; }
    float temperature() const { return options_.temperatures[tier_]; }

    const Model& model_;
    const CrossCache& cross_;
    int frames_;
    Pool<Lane>& lanes_;
    WindowOptions options_;
    LogitRules rules_;
    std::mt19937_64 random_;

    Stage stage_ = Stage::prefill;
    Branch root_;                  ///< prompt and forced tokens; every tier starts from here
    std::vector<int> prompt_;      ///< previous text and start of transcript, without language and task
    int prompt_length_ = 0;
    DecodeRequest prefill_;
    size_t tier_ = 0;
    std::vector<Branch> branches_, finished_;
    Branch best_;
    float no_speech_prob_ = 0;
    float language_prob_ = 1;
};

/// Decodes several windows in common passes until all are done.
void decode_windows(Decoder& decoder, const std::vector<WindowDecoding*>& windows);

}  // namespace stenod::whisper
