#pragma once

#include <cstddef>
#include <vector>

namespace stenod {

/// Power spectra of real signals of one length, several signals at once: one per SIMD lane, so that the compiler
/// vectorises plain loops and every signal's result is independent of its neighbours, to the bit.
class PowerSpectrum {
public:
    /// Signals transformed together.
    static constexpr size_t lanes = 8;

    /// `length` must be even and have no prime factors but 2, 3 and 5; else BadArgument.
    explicit PowerSpectrum(size_t length);

    size_t length() const { return length_; }
    size_t bins() const { return length_ / 2 + 1; }

    /// `signals` [length][lanes] to `power` [bins][lanes]: squared magnitudes of the discrete Fourier transform.
    /// `signals` is overwritten; `scratch` has its size.
    void compute(float* signals, float* scratch, float* power) const;

private:
    /// One pass of the self-sorting (Stockham) transform.
    struct Stage {
        size_t radix;
        size_t groups;                ///< points left to transform, divided by the radix
        size_t stride;                ///< product of the radices of the stages before
        std::vector<float> roots;     ///< DFT matrix of `radix` points [radix][radix], complex
        std::vector<float> twiddles;  ///< [groups][radix], complex
    };

    size_t length_;
    std::vector<Stage> stages_;     ///< of the complex transform of length / 2 points
    std::vector<float> rotations_;  ///< exp(-2 pi i k / length) [bins], complex
};

}  // namespace stenod
