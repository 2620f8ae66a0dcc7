#include "fourier.h"

#include <cmath>
#include <string>
#include <utility>

#include "../errors.h"

namespace stenod {
namespace {

constexpr size_t lanes = PowerSpectrum::lanes;
constexpr size_t point = 2 * lanes;  // a complex number of every lane: all real parts, then all imaginary parts

/// exp(-2 pi i turns), appended.
void append_root(std::vector<float>& out, double turns) {
    const double angle = -2.0 * 3.14159265358979323846 * turns;
    out.push_back(static_cast<float>(std::cos(angle)));
    out.push_back(static_cast<float>(std::sin(angle)));
}

/// to = sum over k of from[k * from_step] * roots[k], all lanes.
template <size_t radix>
inline void weigh(const float* from, size_t from_step, const float* roots, float* real, float* imaginary) {
    for (size_t k = 0; k < radix; ++k) {
        const float c = roots[2 * k];
        const float s = roots[2 * k + 1];
        const float* value = from + k * from_step;
        for (size_t lane = 0; lane < lanes; ++lane) {
            real[lane] += c * value[lane] - s * value[lanes + lane];
            imaginary[lane] += c * value[lanes + lane] + s * value[lane];
        }
    }
}

template <size_t radix>
void transform(const float* from, float* to, size_t groups, size_t stride, const float* roots, const float* twiddles) {
    for (size_t group = 0; group < groups; ++group) {
        for (size_t column = 0; column < stride; ++column) {
            const float* source = from + (column + stride * group) * point;
            for (size_t output = 0; output < radix; ++output) {
                float real[lanes] = {};
                float imaginary[lanes] = {};
                weigh<radix>(source, stride * groups * point, roots + 2 * radix * output, real, imaginary);
                const float c = twiddles[2 * (radix * group + output)];
                const float s = twiddles[2 * (radix * group + output) + 1];
                float* target = to + (column + stride * (radix * group + output)) * point;
                for (size_t lane = 0; lane < lanes; ++lane) {
                    target[lane] = c * real[lane] - s * imaginary[lane];
                    target[lanes + lane] = c * imaginary[lane] + s * real[lane];
                }
            }
        }
    }
}

}  // namespace

PowerSpectrum::PowerSpectrum(size_t length) : length_(length) {
    const size_t points = length / 2;
    size_t rest = points;
    for (size_t stride = 1; length % 2 == 0 && rest > 1;) {
        const size_t radix = rest % 5 == 0 ? 5 : rest % 4 == 0 ? 4 : rest % 3 == 0 ? 3 : 2;
        if (rest % radix != 0) break;
        Stage stage{radix, rest / radix, stride, {}, {}};
        for (size_t output = 0; output < radix; ++output)
            for (size_t input = 0; input < radix; ++input)
                append_root(stage.roots, static_cast<double>(output * input % radix) / static_cast<double>(radix));
        for (size_t group = 0; group < stage.groups; ++group)
            for (size_t output = 0; output < radix; ++output)
                append_root(stage.twiddles, static_cast<double>(group * output) / static_cast<double>(rest));
        stages_.push_back(std::move(stage));
        stride *= radix;
        rest /= radix;
    }
    if (length == 0 || length % 2 != 0 || rest != 1)
        throw BadArgument("Fourier transform of length " + std::to_string(length) +
                          ": must be even, with no prime factors but 2, 3 and 5");
    for (size_t k = 0; k <= points; ++k) append_root(rotations_, static_cast<double>(k) / static_cast<double>(length));
}

void PowerSpectrum::compute(float* signals, float* scratch, float* power) const {
    // Even samples are taken as real parts and odd ones as imaginary parts: half the points. In memory nothing moves.
    float* from = signals;
    float* to = scratch;
    for (const Stage& stage : stages_) {
        const auto run = stage.radix == 5 ? transform<5> : stage.radix == 4 ? transform<4>
                       : stage.radix == 3 ? transform<3> : transform<2>;
        run(from, to, stage.groups, stage.stride, stage.roots.data(), stage.twiddles.data());
        std::swap(from, to);
    }
    // Then the spectra of the two halves are told apart by symmetry, and joined by the last butterfly.
    const size_t points = length_ / 2;
    for (size_t k = 0; k <= points; ++k) {
        const float* a = from + (k % points) * point;
        const float* b = from + ((points - k) % points) * point;
        const float c = rotations_[2 * k];
        const float s = rotations_[2 * k + 1];
        for (size_t lane = 0; lane < lanes; ++lane) {
            const float even_real = a[lane] + b[lane];
            const float even_imaginary = a[lanes + lane] - b[lanes + lane];
            const float odd_real = a[lanes + lane] + b[lanes + lane];
            const float odd_imaginary = b[lane] - a[lane];
            const float real = even_real + c * odd_real - s * odd_imaginary;
            const float imaginary = even_imaginary + c * odd_imaginary + s * odd_real;
            power[k * lanes + lane] = 0.25f * (real * real + imaginary * imaginary);
        }
    }
}

}  // namespace stenod
