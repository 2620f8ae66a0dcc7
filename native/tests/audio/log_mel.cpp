#include "audio/log_mel.h"

#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "errors.h"
#include "fixture.h"

using namespace stenod;
using namespace stenod::tests;

namespace {

const MelSpectrogram& spectrogram() {
    static const MelSpectrogram instance = [] {
        MelParameters parameters;
        parameters.filters = golden_tensor("mel.filters");
        parameters.mel_bands = parameters.filters.size() / 201;
        return MelSpectrogram(parameters);
    }();
    return instance;
}

LogMelStream stream_of(const std::vector<float>& samples) {
    LogMelStream stream(spectrogram());
    stream.push(samples.data(), samples.size());
    return stream;
}

std::vector<float> window(const LogMelStream& stream, size_t start_frame, size_t n_frames) {
    std::vector<float> out(spectrogram().mel_bands() * n_frames);
    stream.window(start_frame, n_frames, out.data());
    return out;
}

std::vector<float> first_samples(size_t count) {
    std::vector<float> samples = golden_tensor("mel.samples");
    samples.resize(count);
    return samples;
}

}  // namespace

TEST_CASE("windows equal those of Whisper's feature extractor") {
    const std::vector<int32_t>& cases = golden().i32_array("mel.cases");  // pairs: samples, frames
    for (size_t i = 0; i < cases.size(); i += 2) {
        CAPTURE(cases[i]);
        CAPTURE(cases[i + 1]);
        const LogMelStream stream = stream_of(first_samples(static_cast<size_t>(cases[i])));
        const std::vector<float> expected = golden_tensor("mel.window." + std::to_string(i / 2));
        CHECK(greatest_difference(window(stream, 0, static_cast<size_t>(cases[i + 1])), expected) < 1e-5);
    }
}

TEST_CASE("no audio is digital silence") {
    for (const float value : window(LogMelStream(spectrogram()), 0, 7)) CHECK(value == -1.5f);
}

TEST_CASE("frames do not depend on how the audio was cut, to the bit") {
    const std::vector<float> samples = golden_tensor("mel.samples");
    const std::vector<float> whole = window(stream_of(samples), 0, 120);
    std::mt19937 random(1);
    for (const size_t greatest_piece : {1, 7, 161, 1000, 5000}) {
        LogMelStream stream(spectrogram());
        for (size_t begin = 0; begin < samples.size();) {
            const size_t count = std::min<size_t>(random() % (greatest_piece + 1), samples.size() - begin);
            stream.push(&samples[begin], count);
            begin += count;
        }
        CHECK(window(stream, 0, 120) == whole);
    }
}

TEST_CASE("a window inside the audio hears its true neighbours") {
    const LogMelStream stream = stream_of(golden_tensor("mel.samples"));
    const size_t bands = spectrogram().mel_bands();
    const std::vector<float> part = window(stream, 20, 30);
    float maximum = -10.0f;
    for (size_t i = 20; i < 50; ++i)
        maximum = std::max(maximum, *std::max_element(stream.frame(i), stream.frame(i) + bands));
    for (size_t i = 0; i < 30; ++i)
        for (size_t band = 0; band < bands; ++band)
            CHECK(part[band * 30 + i] == (std::max(stream.frame(20 + i)[band], maximum - 8.0f) + 4.0f) / 4.0f);
}

TEST_CASE("what is not a number counts as silence, and wild values stay finite") {
    std::vector<float> samples = first_samples(4000);
    std::vector<float> cleaned = samples;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
        samples[1000] = odd;
        cleaned[1000] = 0.0f;
        CHECK(window(stream_of(samples), 0, 30) == window(stream_of(cleaned), 0, 30));
    }
    samples[1000] = std::numeric_limits<float>::max();
    for (const float value : window(stream_of(samples), 0, 30)) CHECK(std::isfinite(value));
}

TEST_CASE("truncated audio leaves no trace") {
    const std::vector<float> samples = golden_tensor("mel.samples");
    for (const size_t kept : {0, 150, 201, 4000, 8111}) {
        LogMelStream stream = stream_of(samples);
        stream.truncate(kept);
        CHECK(stream.samples() == kept);
        CHECK(window(stream, 0, 60) == window(stream_of(first_samples(kept)), 0, 60));
        stream.push(&samples[kept], samples.size() - kept);
        CHECK(window(stream, 0, 120) == window(stream_of(samples), 0, 120));
    }
}

TEST_CASE("dropping old frames changes no later window and no index") {
    const std::vector<float> samples = golden_tensor("mel.samples");
    const LogMelStream whole = stream_of(samples);
    LogMelStream stream(spectrogram());
    for (size_t begin = 0; begin < samples.size(); begin += 400) {
        stream.push(&samples[begin], std::min<size_t>(400, samples.size() - begin));
        stream.drop_before(std::min<size_t>(stream.frames() / 2, 40));
    }
    CHECK(stream.first_frame() == 40);
    CHECK(stream.frames() == whole.frames());
    CHECK(window(stream, 40, 80) == window(whole, 40, 80));
    std::vector<float> out(spectrogram().mel_bands());
    CHECK_THROWS_AS(stream.window(39, 1, out.data()), BadArgument);
    CHECK_THROWS_AS(stream.truncate(100), BadArgument);
    stream.drop_before(1000000);
    CHECK(stream.first_frame() == stream.frames());
    CHECK(window(stream, stream.frames(), 10) == window(whole, whole.frames(), 10));
    stream.reset();
    CHECK(stream.samples() == 0);
    CHECK(stream.frames() == 0);
    stream.push(samples.data(), samples.size());
    CHECK(window(stream, 0, 120) == window(whole, 0, 120));
}

namespace {

/// NeMo's convention, with filters that let single bins through.
const MelSpectrogram& nemo_spectrogram() {
    static const MelSpectrogram instance = [] {
        MelParameters parameters;
        parameters.convention = MelParameters::Convention::nemo;
        parameters.n_fft = 512;
        parameters.pre_emphasis = 0.97f;
        parameters.mel_bands = 257;
        parameters.filters.resize(257 * 257);
        for (size_t i = 0; i < 257; ++i) parameters.filters[i * 257 + i] = 1;
        return MelSpectrogram(parameters);
    }();
    return instance;
}

/// The definition, in double precision: one frame of audio that begins with sample 0 and ends with the last.
std::vector<float> defined_frame(const std::vector<float>& samples, size_t frame) {
    constexpr double pi = 3.14159265358979323846;
    std::vector<double> signal(512);
    for (size_t i = 0; i < 400; ++i) {
        const auto index = static_cast<std::ptrdiff_t>(frame * 160 + i) - 200;
        if (index < 0 || index >= static_cast<std::ptrdiff_t>(samples.size())) continue;
        const double before = index > 0 ? samples[static_cast<size_t>(index - 1)] : 0.0;
        const double emphasised = samples[static_cast<size_t>(index)] - 0.97 * before;
        signal[56 + i] = emphasised * (0.5 - 0.5 * std::cos(2 * pi * static_cast<double>(i) / 399));
    }
    std::vector<float> values;
    for (size_t bin = 0; bin < 257; ++bin) {
        double real = 0, imaginary = 0;
        for (size_t i = 0; i < 512; ++i) {
            const double angle = 2 * pi * static_cast<double>(bin * i % 512) / 512;
            real += signal[i] * std::cos(angle);
            imaginary += signal[i] * std::sin(angle);
        }
        values.push_back(static_cast<float>(std::log(real * real + imaginary * imaginary + std::pow(2.0, -24))));
    }
    return values;
}

}  // namespace

TEST_CASE("frames in NeMo's convention are as defined, however the audio was cut") {
    const std::vector<float> samples = first_samples(3210);
    for (const size_t piece : {samples.size(), size_t{1}, size_t{170}}) {
        LogMelStream stream(nemo_spectrogram());
        for (size_t begin = 0; begin < samples.size(); begin += piece)
            stream.push(&samples[begin], std::min(piece, samples.size() - begin));
        std::vector<float> frames(20 * 257);
        stream.copy_frames(0, 20, frames.data());
        for (size_t i = 0; i < 20; ++i) {
            const auto begin = frames.begin() + static_cast<std::ptrdiff_t>(i * 257);
            CHECK(greatest_difference({begin, begin + 257}, defined_frame(samples, i)) < 1e-3);
        }
        CHECK(stream.frames() == 19);  // the last one hears what is not there
        stream.drop_before(10);
        CHECK_THROWS_AS(stream.copy_frames(9, 1, frames.data()), BadArgument);
        CHECK_THROWS_AS(stream.truncate(3000), BadArgument);
    }
}

TEST_CASE("normalised bands have mean 0 and deviation 1") {
    std::vector<float> frames = {1, 5, 2, 5, 3, 5, 4, 5};
    normalise_bands(frames.data(), 4, 2);
    const float deviation = std::sqrt(5.0f / 3.0f);
    for (size_t i = 0; i < 4; ++i) {
        CHECK(frames[2 * i] == doctest::Approx((static_cast<float>(i) - 1.5f) / deviation).epsilon(1e-4));
        CHECK(frames[2 * i + 1] == 0.0f);
    }
    std::vector<float> single = {7, -3};
    normalise_bands(single.data(), 1, 2);
    CHECK(single == std::vector<float>{0, 0});
}

TEST_CASE("parameters that do not fit each other are refused") {
    MelParameters parameters;
    parameters.mel_bands = 2;
    parameters.filters.resize(2 * 201 - 1);
    CHECK_THROWS_AS(MelSpectrogram{parameters}, BadArgument);
    parameters.filters.resize(2 * 201);
    parameters.hop = 401;
    CHECK_THROWS_AS(MelSpectrogram{parameters}, BadArgument);
    parameters.hop = 160;
    parameters.mel_bands = 0;
    CHECK_THROWS_AS(MelSpectrogram{parameters}, BadArgument);
}
