#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "../model/scores.h"
#include "../model/tokenizer.h"

namespace stenod::whisper {

/// Which token may follow: the suppression lists and timestamp rules of Hugging Face's Whisper (which is the golden
/// reference; OpenAI's differ in that they do not force a timestamp first). Immutable, may be used from many threads.
class LogitRules {
public:
    struct Options {
        size_t vocab_size = 0;
        TokenId eot = 0;
        TokenId timestamp_begin = 0;            ///< "<|0.00|>"; ids between eot and it are control tokens
        bool timestamps = true;                 ///< false: timestamps are never chosen
        std::vector<TokenId> suppress;          ///< never chosen
        std::vector<TokenId> begin_suppress;    ///< not chosen as the first token
        double max_initial_timestamp = 1.0;     ///< seconds
    };

    /// Throws BadArgument if an id is not of the vocabulary.
    explicit LogitRules(Options options);

    /// Sets to minus infinity, in place, the logits [vocab_size] of tokens that must not follow the `count` tokens
    /// `sampled` so far (prompt not included). Control tokens (start, language, task, ...) never may.
    void apply(float* logits, const TokenId* sampled, size_t count) const;

private:
    void apply_timestamps(float* logits, const TokenId* sampled, size_t count) const;

    Options options_;
    size_t last_initial_timestamp_;  ///< id
};

/// Draws an index with probability softmax(logits / temperature); temperature > 0, at least one logit finite.
size_t sample(const float* logits, size_t count, float temperature, std::mt19937_64& random);

/// Bytes of `text` per byte of its zlib form at the default level: above 2.4, OpenAI takes a text for a loop.
double compression_ratio(std::string_view text);

}  // namespace stenod::whisper
