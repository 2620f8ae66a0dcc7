#include "rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <zlib.h>

#include "../errors.h"

namespace stenod::whisper {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();
constexpr double timestamp_seconds = 0.02;

/// Reductions go in this many independent strands, which is what lets the compiler vectorise them.
constexpr size_t strands = 16;

void forbid(float* logits, size_t first, size_t end) {
    if (first < end) std::fill(logits + first, logits + end, never);
}

float maximum(const float* values, size_t count) {
    std::array<float, strands> greatest;
    greatest.fill(never);
    size_t i = 0;
    for (; i + strands <= count; i += strands)
        for (size_t strand = 0; strand < strands; ++strand)
            greatest[strand] = std::max(greatest[strand], values[i + strand]);
    for (; i < count; ++i) greatest[0] = std::max(greatest[0], values[i]);
    return *std::max_element(greatest.begin(), greatest.end());
}

/// exp(x) for x <= 0, minus infinity included, with an error below 1e-6 of the value or 1e-37, in plain arithmetic that
/// vectorises.
inline float exponential(float x) {
    constexpr float least = -87.0f, log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    constexpr float round_to_integer = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const float bounded = std::max(x, least);
    const float shifted = bounded * log2_e + round_to_integer;
    const float power = shifted - round_to_integer;
    const float rest = (bounded - power * ln2_high) - power * ln2_low;
    float series = 1.0f / 720.0f;
    for (const float coefficient : {1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f})
        series = series * rest + coefficient;
    int32_t exponent;
    std::memcpy(&exponent, &shifted, sizeof exponent);
    const uint32_t scale_bits = (static_cast<uint32_t>(exponent) + 127u) << 23;
    float scale;
    std::memcpy(&scale, &scale_bits, sizeof scale);
    return series * scale;
}

/// Sum of exp((value - greatest) * factor).
double sum_of_exponentials(const float* values, size_t count, float greatest, float factor) {
    constexpr size_t stretch = 64 * strands;  // summed in float, the stretches in double: neither slow nor inexact
    std::array<float, stretch> exponentials;
    double total = 0.0;
    for (size_t begin = 0; begin < count; begin += stretch) {
        const size_t length = std::min(stretch, count - begin);
        for (size_t i = 0; i < length; ++i) exponentials[i] = exponential((values[begin + i] - greatest) * factor);
        std::fill(exponentials.begin() + length, exponentials.end(), 0.0f);
        std::array<float, strands> sums{};
        for (size_t i = 0; i < stretch; i += strands)
            for (size_t strand = 0; strand < strands; ++strand) sums[strand] += exponentials[i + strand];
        for (const float sum : sums) total += sum;
    }
    return total;
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

float logsumexp(const float* values, size_t count) {
    const float greatest = maximum(values, count);
    if (greatest == never) return never;
    return greatest + static_cast<float>(std::log(sum_of_exponentials(values, count, greatest, 1.0f)));
}

size_t argmax(const float* values, size_t count) {
    const float* end = values + count;
    const float* place = std::find(values, end, maximum(values, count));
    return place == end ? 0 : static_cast<size_t>(place - values);
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
