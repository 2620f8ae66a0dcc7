#include "rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <zlib.h>

#include "../errors.h"
#include "../model/scores.h"

namespace stenod::whisper {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();
constexpr double timestamp_seconds = 0.02;

void forbid(float* logits, size_t first, size_t end) {
    if (first < end) std::fill(logits + first, logits + end, never);
}

}  // namespace

LogitRules::LogitRules(Options options) : options_(std::move(options)) {
    const auto check = [this](TokenId id, const char* what) {
        if (id < 0 || static_cast<size_t>(id) >= options_.vocab_size)
            throw BadArgument(std::string(what) + ": token " + std::to_string(id) + " is not in the vocabulary of " +
                              std::to_string(options_.vocab_size));
    };
    check(options_.eot, "eot");
    check(options_.timestamp_begin, "timestamp_begin");
    if (options_.timestamp_begin <= options_.eot) throw BadArgument("timestamp_begin must lie after eot");
    for (const TokenId id : options_.suppress) check(id, "suppress_tokens");
    for (const TokenId id : options_.begin_suppress) check(id, "begin_suppress_tokens");
    const double steps = std::floor(std::max(options_.max_initial_timestamp, 0.0) / timestamp_seconds + 1e-6);
    const auto last_step = static_cast<double>(options_.vocab_size - 1 - static_cast<size_t>(options_.timestamp_begin));
    last_initial_timestamp_ = static_cast<size_t>(options_.timestamp_begin + std::min(steps, last_step));
}

void LogitRules::apply(float* logits, const TokenId* sampled, size_t count) const {
    const auto eot = static_cast<size_t>(options_.eot);
    const auto timestamp_begin = static_cast<size_t>(options_.timestamp_begin);
    for (const TokenId id : options_.suppress) logits[id] = never;
    if (count == 0)
        for (const TokenId id : options_.begin_suppress) logits[id] = never;
    // Hugging Face and OpenAI leave language tokens, and without timestamps also timestamps, to the model's good sense.
    forbid(logits, eot + 1, timestamp_begin);
    if (options_.timestamps)
        apply_timestamps(logits, sampled, count);
    else
        forbid(logits, timestamp_begin, options_.vocab_size);
}

void LogitRules::apply_timestamps(float* logits, const TokenId* sampled, size_t count) const {
    const auto eot = static_cast<size_t>(options_.eot);
    const auto begin = static_cast<size_t>(options_.timestamp_begin);
    const size_t end = options_.vocab_size;
    const auto is_timestamp = [this](TokenId id) { return id >= options_.timestamp_begin; };

    // Timestamps come in pairs, except right before the end of text; nothing sampled yet counts as a timestamp.
    const bool last = count >= 1 && is_timestamp(sampled[count - 1]);
    const bool last_but_one = count < 2 || is_timestamp(sampled[count - 2]);
    if (last && last_but_one) forbid(logits, begin, end);
    if (last && !last_but_one) forbid(logits, 0, eot);

    // They never go back; one may repeat only as the opening of a pair right after the closing of the one before.
    size_t newest = count;
    while (newest > 0 && !is_timestamp(sampled[newest - 1])) --newest;
    if (newest > 0) {
        const auto id = static_cast<size_t>(sampled[newest - 1]);
        forbid(logits, begin, std::min(last && !last_but_one ? id : id + 1, end));
    }

    // The first token is a timestamp, and not a late one. (OpenAI only forbids late ones.)
    if (count == 0) {
        forbid(logits, 0, begin);
        forbid(logits, last_initial_timestamp_ + 1, end);
    }

    // Where all timestamps together are more probable than any one text token, it is time for a timestamp.
    if (logsumexp(logits + begin, end - begin) > maximum(logits, begin)) forbid(logits, 0, begin);
}

size_t sample(const float* logits, size_t count, float temperature, std::mt19937_64& random) {
    const float greatest = maximum(logits, count);
    const float factor = 1.0f / temperature;
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;  // in [0, 1), the same with every library
    double rest = uniform * sum_of_exponentials(logits, count, greatest, factor);
    size_t chosen = argmax(logits, count);
    for (size_t i = 0; i < count && rest >= 0.0; ++i) {
        if (logits[i] == never) continue;
        chosen = i;
        rest -= exponential((logits[i] - greatest) * factor);
    }
    return chosen;
}

double compression_ratio(std::string_view text) {
    uLongf size = compressBound(static_cast<uLong>(text.size()));
    std::string compressed(size, '\0');
    const int status = compress(reinterpret_cast<Bytef*>(compressed.data()), &size,
                                reinterpret_cast<const Bytef*>(text.data()), static_cast<uLong>(text.size()));
    if (status != Z_OK) throw OutOfMemory("zlib: no memory to compress " + std::to_string(text.size()) + " bytes");
    return static_cast<double>(text.size()) / static_cast<double>(size);
}

}  // namespace stenod::whisper
