#include "log_mel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

#include "../errors.h"

namespace stenod {
namespace {

constexpr float least_power = 1e-10f;
constexpr float silence = -10.0f;         // log10(least_power)
constexpr float dynamic_range = 8.0f;     // decades kept below a window's maximum
constexpr float greatest_sample = 1e6f;   // keeps powers finite, however wild the input
constexpr float guard = 1.0f / (1 << 24); // added to NeMo's powers
constexpr float least_deviation = 1e-5f;  // added to NeMo's deviations

const MelParameters& checked(const MelParameters& parameters) {
    if (parameters.mel_bands == 0 || parameters.hop == 0 || parameters.hop > parameters.window ||
        parameters.window > parameters.n_fft)
        throw BadArgument("mel spectrogram: mel_bands and hop must be positive, hop <= window <= n_fft");
    if (parameters.filters.size() != parameters.mel_bands * (parameters.n_fft / 2 + 1))
        throw BadArgument("mel spectrogram: " + std::to_string(parameters.filters.size()) +
                          " filter weights do not make mel_bands x (n_fft / 2 + 1)");
    return parameters;
}

float sane(float sample) {
    return std::isfinite(sample) ? std::clamp(sample, -greatest_sample, greatest_sample) : 0.0f;
}

}  // namespace

MelSpectrogram::MelSpectrogram(const MelParameters& parameters)
    : convention_(checked(parameters).convention),
      hop_(parameters.hop),
      pre_emphasis_(parameters.pre_emphasis),
      spectrum_(parameters.n_fft),
      window_(parameters.window) {
    const size_t period = window_.size() - (convention_ == MelParameters::Convention::nemo ? 1 : 0);
    const double turn = 2.0 * 3.14159265358979323846 / static_cast<double>(period);
    for (size_t i = 0; i < window_.size(); ++i)
        window_[i] = static_cast<float>(0.5 - 0.5 * std::cos(turn * static_cast<double>(i)));
    for (size_t band = 0; band < parameters.mel_bands; ++band) {
        const auto row = parameters.filters.begin() + static_cast<std::ptrdiff_t>(band * spectrum_.bins());
        const auto row_end = row + static_cast<std::ptrdiff_t>(spectrum_.bins());
        const auto non_zero = [](float weight) { return weight != 0.0f; };
        const auto first = std::find_if(row, row_end, non_zero);
        const auto last = std::find_if(std::reverse_iterator(row_end), std::reverse_iterator(first), non_zero);
        bands_.push_back({static_cast<size_t>(first - row), std::vector<float>(first, last.base())});
    }
}

float MelSpectrogram::log_power(float power) const {
    return convention_ == MelParameters::Convention::nemo ? std::log(power + guard)
                                                          : std::log10(std::max(power, least_power));
}

void MelSpectrogram::compute(const float* samples, size_t count, float* out) const {
    constexpr size_t lanes = PowerSpectrum::lanes;
    const size_t n_fft = spectrum_.length(), margin = (n_fft - window()) / 2;
    std::vector<float> signals(n_fft * lanes), scratch(n_fft * lanes), power(spectrum_.bins() * lanes);
    for (size_t first = 0; first < count; first += lanes) {
        const size_t used = std::min(lanes, count - first);
        if (margin > 0) std::fill(signals.begin(), signals.end(), 0.0f);  // the transform overwrites it
        for (size_t lane = 0; lane < used; ++lane) {
            const float* frame = samples + (first + lane) * hop_;
            for (size_t i = 0; i < window(); ++i) signals[(margin + i) * lanes + lane] = window_[i] * frame[i];
        }
        spectrum_.compute(signals.data(), scratch.data(), power.data());
        for (size_t band = 0; band < bands_.size(); ++band) {
            const Band& filter = bands_[band];
            float sums[lanes] = {};
            for (size_t i = 0; i < filter.weights.size(); ++i)
                for (size_t lane = 0; lane < lanes; ++lane)
                    sums[lane] += filter.weights[i] * power[(filter.first_bin + i) * lanes + lane];
            for (size_t lane = 0; lane < used; ++lane)
                out[(first + lane) * bands_.size() + band] = log_power(sums[lane]);
        }
    }
}

LogMelStream::LogMelStream(const MelSpectrogram& spectrogram) : spectrogram_(&spectrogram) {}

void LogMelStream::push(const float* samples, size_t count) {
    samples_.resize(samples_.size() + count);
    std::transform(samples, samples + count, samples_.end() - static_cast<std::ptrdiff_t>(count), [this](float sample) {
        const float now = sane(sample), before = std::exchange(last_, now);
        return now - spectrogram_->pre_emphasis() * before;
    });

    const size_t hop = spectrogram_->hop();
    const size_t half = spectrogram_->window() / 2;
    const size_t before = frames();
    const size_t after = complete_frames(this->samples());
    raw_.resize((after - first_frame_) * bands());
    // The first frames reach back beyond sample 0; all others lie in the samples as they are.
    const size_t mirrored = std::clamp((half + hop - 1) / hop, before, after);
    if (before < mirrored)
        spectrogram_->compute(gather(before, mirrored, this->samples() + 1).data(), mirrored - before,
                              &raw_[(before - first_frame_) * bands()]);
    if (mirrored < after)
        spectrogram_->compute(&samples_[mirrored * hop - half - first_sample_], after - mirrored,
                              &raw_[(mirrored - first_frame_) * bands()]);
}

size_t LogMelStream::complete_frames(size_t samples) const {
    const size_t half = spectrogram_->window() / 2;  // one sample more, since frame 0 is mirrored at sample 0
    return samples > half ? (samples - half - 1) / spectrogram_->hop() + 1 : 0;
}

/// The samples under frames [first_frame, end_frame); zeros where there are none, but in Whisper's convention mirrored at
/// sample 0 and, if the audio ends there or before, at sample `window_end`.
std::vector<float> LogMelStream::gather(size_t first_frame, size_t end_frame, size_t window_end) const {
    const auto hop = static_cast<std::ptrdiff_t>(spectrogram_->hop());
    const auto half = static_cast<std::ptrdiff_t>(spectrogram_->window() / 2);
    const auto held = static_cast<std::ptrdiff_t>(first_sample_);
    const auto end = static_cast<std::ptrdiff_t>(samples());
    const auto border = static_cast<std::ptrdiff_t>(window_end);
    const auto first = static_cast<std::ptrdiff_t>(first_frame) * hop - half;
    const auto last = static_cast<std::ptrdiff_t>(end_frame - 1) * hop + half;
    std::vector<float> gathered;
    gathered.reserve(static_cast<size_t>(last - first));
    for (std::ptrdiff_t i = first; i < last; ++i) {
        std::ptrdiff_t source = i;
        if (mirrors()) {
            source = std::abs(i);
            if (source >= border && end <= border) source = 2 * (border - 1) - source;
        }
        gathered.push_back(held <= source && source < end ? samples_[static_cast<size_t>(source - held)] : 0.0f);
    }
    return gathered;
}

std::vector<float> LogMelStream::samples_from(size_t first) const {
    if (first < first_sample_) throw BadArgument("sample " + std::to_string(first) + " was dropped");
    return {samples_.begin() + static_cast<std::ptrdiff_t>(std::min(first, samples()) - first_sample_), samples_.end()};
}

void LogMelStream::copy_frames(size_t first, size_t count, float* out) const {
    if (first < first_frame_) throw BadArgument("mel frames: frame " + std::to_string(first) + " was dropped");
    const size_t end = first + count, complete = std::clamp(frames(), first, end);
    if (first < complete) std::copy_n(frame(first), (complete - first) * bands(), out);
    if (complete < end)
        spectrogram_->compute(gather(complete, end, samples()).data(), end - complete,
                              out + (complete - first) * bands());
}

void LogMelStream::window(size_t start_frame, size_t n_frames, float* out) const {
    if (start_frame < first_frame_ || n_frames == 0)
        throw BadArgument("mel window: start_frame " + std::to_string(start_frame) + " was dropped, or n_frames is 0");
    const size_t hop = spectrogram_->hop();
    const size_t end_frame = start_frame + n_frames;
    const size_t complete = std::clamp(frames(), start_frame, end_frame);
    // Frames that hear the last samples, and silence after them.
    const size_t heard = std::clamp((samples() + spectrogram_->window() / 2 + hop - 1) / hop, complete, end_frame);
    std::vector<float> tail((heard - complete) * bands());
    if (complete < heard)
        spectrogram_->compute(gather(complete, heard, end_frame * hop).data(), heard - complete, tail.data());

    float maximum = silence;
    const auto write = [&](const float* frame, size_t column) {
        for (size_t band = 0; band < bands(); ++band) {
            out[band * n_frames + column] = frame[band];
            maximum = std::max(maximum, frame[band]);
        }
    };
    for (size_t index = start_frame; index < complete; ++index) write(frame(index), index - start_frame);
    for (size_t index = complete; index < heard; ++index)
        write(&tail[(index - complete) * bands()], index - start_frame);
    for (size_t band = 0; band < bands(); ++band)
        std::fill(out + band * n_frames + (heard - start_frame), out + (band + 1) * n_frames, silence);

    const float least = maximum - dynamic_range;
    for (size_t i = 0; i < bands() * n_frames; ++i) out[i] = (std::max(out[i], least) + 4.0f) / 4.0f;
}

void LogMelStream::truncate(size_t samples) {
    if (samples >= this->samples()) return;
    if (spectrogram_->pre_emphasis() != 0) throw BadArgument("cannot truncate audio that is emphasised");
    const size_t complete = complete_frames(samples);
    if (complete < first_frame_ || samples < first_sample_)
        throw BadArgument("cannot truncate to " + std::to_string(samples) + " samples: they were dropped");
    samples_.resize(samples - first_sample_);
    raw_.resize((complete - first_frame_) * bands());
}

void LogMelStream::drop_before(size_t frame) {
    const size_t half = spectrogram_->window() / 2;
    const size_t kept_frame = std::clamp(frame, first_frame_, frames());
    const size_t kept_sample = std::max(kept_frame * spectrogram_->hop(), half) - half;
    raw_.erase(raw_.begin(), raw_.begin() + static_cast<std::ptrdiff_t>((kept_frame - first_frame_) * bands()));
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(kept_sample - first_sample_));
    first_frame_ = kept_frame;
    first_sample_ = kept_sample;
}

void LogMelStream::reset() {
    samples_.clear();
    raw_.clear();
    last_ = 0;
    first_sample_ = 0;
    first_frame_ = 0;
}

void normalise_bands(float* frames, size_t count, size_t mel_bands) {
    for (size_t band = 0; band < mel_bands; ++band) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; ++i) sum += frames[i * mel_bands + band];
        const double mean = sum / static_cast<double>(count);
        for (size_t i = 0; i < count; ++i) squares += std::pow(frames[i * mel_bands + band] - mean, 2);
        const double deviation = std::sqrt(squares / static_cast<double>(std::max<size_t>(2, count) - 1)) + least_deviation;
        for (size_t i = 0; i < count; ++i) {
            float& value = frames[i * mel_bands + band];
            value = static_cast<float>((value - mean) / deviation);
        }
    }
}

}  // namespace stenod
