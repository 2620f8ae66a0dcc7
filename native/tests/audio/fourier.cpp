#include "audio/fourier.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "errors.h"

using stenod::PowerSpectrum;

namespace {

constexpr size_t lanes = PowerSpectrum::lanes;

std::vector<float> noise(size_t length) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    std::vector<float> signals(length * lanes);
    for (float& value : signals) value = uniform(random);
    return signals;
}

double power_by_definition(const std::vector<float>& signals, size_t lane, size_t bin) {
    const size_t length = signals.size() / lanes;
    const double turn = -2.0 * std::acos(-1.0) / static_cast<double>(length);
    std::complex<double> sum = 0.0;
    for (size_t i = 0; i < length; ++i)
        sum += std::polar(1.0, turn * static_cast<double>(i * bin % length)) * double{signals[i * lanes + lane]};
    return std::norm(sum);
}

}  // namespace

TEST_CASE("power spectra agree with the definition for every kind of length") {
    for (const size_t length : {2, 4, 6, 30, 64, 400, 512, 720}) {
        CAPTURE(length);
        const PowerSpectrum spectrum(length);
        const std::vector<float> signals = noise(length);
        std::vector<float> work = signals, scratch(signals.size()), power(spectrum.bins() * lanes);
        spectrum.compute(work.data(), scratch.data(), power.data());
        double greatest = 0.0;
        for (size_t bin = 0; bin < spectrum.bins(); ++bin)
            for (size_t lane = 0; lane < lanes; ++lane) {
                const double expected = power_by_definition(signals, lane, bin);
                greatest = std::max(greatest, std::abs(expected - power[bin * lanes + lane]));
            }
        CHECK(greatest < 1e-5 * static_cast<double>(length));
    }
}

TEST_CASE("lengths that cannot be transformed are refused") {
    for (const size_t length : {0, 1, 401, 14, 22}) CHECK_THROWS_AS(PowerSpectrum{length}, stenod::BadArgument);
}
