#pragma once

#include <cstddef>
#include <vector>

#include "fourier.h"

namespace stenod {

/// What a model's front end was trained with. The filterbank comes from the model file.
struct MelParameters {
    /// How the families differ, each as its reference implementation has it.
    enum class Convention {
        /// Periodic Hann window; audio is mirrored at its borders; log10(max(power, 1e-10)).
        whisper,
        /// Symmetric Hann window; zeros beyond the borders; ln(power + 2^-24).
        nemo,
    };

    Convention convention = Convention::whisper;
    size_t n_fft = 400;
    size_t window = 400;  ///< samples, in the middle of n_fft
    size_t hop = 160;
    float pre_emphasis = 0;  ///< x[i] - pre_emphasis * x[i - 1] takes the place of x[i]
    size_t mel_bands = 0;
    /// [mel_bands][n_fft / 2 + 1], row-major.
    std::vector<float> filters;
};

/// The log-mel transform of single frames: immutable, may be used from many threads.
class MelSpectrogram {
public:
    /// Throws BadArgument if a size is not positive, the filters' size does not fit, hop > window, window > n_fft, or
    /// n_fft cannot be transformed (see PowerSpectrum).
    explicit MelSpectrogram(const MelParameters& parameters);

    MelParameters::Convention convention() const { return convention_; }
    size_t window() const { return window_.size(); }
    size_t hop() const { return hop_; }
    float pre_emphasis() const { return pre_emphasis_; }
    size_t mel_bands() const { return bands_.size(); }

    /// `out` [count][mel_bands] becomes the log-mel, not normalised, of `count` frames: frame i is the window's samples
    /// that begin at samples[i * hop], emphasised before. A frame's values depend on its own samples only, to the bit,
    /// however many are computed together.
    void compute(const float* samples, size_t count, float* out) const;

private:
    /// One mel filter without the zeros on either side.
    struct Band {
        size_t first_bin;
        std::vector<float> weights;
    };

    float log_power(float power) const;

    MelParameters::Convention convention_;
    size_t hop_;
    float pre_emphasis_;
    PowerSpectrum spectrum_;
    std::vector<float> window_;  ///< Hann
    std::vector<Band> bands_;
};

/// The log-mel frames of audio that arrives in pieces. Frame f is centred on sample f * hop.
/// Sample and frame indices count from the last reset, also after `drop_before`. Not thread-safe.
class LogMelStream {
public:
    /// `spectrogram` must outlive the stream.
    explicit LogMelStream(const MelSpectrogram& spectrogram);

    /// Appends samples (nominally in [-1, 1]; those that are not finite count as 0) and computes the frames that
    /// they complete. Constant amortised time per sample; the same frames for any split.
    void push(const float* samples, size_t count);

    /// Samples pushed since the last reset, less those truncated.
    size_t samples() const { return first_sample_ + samples_.size(); }

    /// The samples from `first` on. Throws BadArgument if it was dropped.
    std::vector<float> samples_from(size_t first) const;

    /// Frames whose samples have all arrived.
    size_t frames() const { return first_frame_ + raw_.size() / bands(); }

    /// The oldest frame that is still held.
    size_t first_frame() const { return first_frame_; }

    /// Un-normalised log10 mel [mel_bands] of a complete frame: first_frame() <= index < frames().
    const float* frame(size_t index) const { return &raw_[(index - first_frame_) * bands()]; }

    /// Writes the frames [count][mel_bands] from `first` on, not normalised, as if the audio ended where it ends now.
    /// Throws BadArgument if `first` was dropped.
    void copy_frames(size_t first, size_t count, float* out) const;

    /// Of Whisper's convention: writes the normalised matrix [mel_bands][n_frames] (time contiguous) of the audio from `start_frame` on,
    /// followed by digital silence: what Whisper's feature extractor makes of the samples from start_frame * hop,
    /// padded with zeros to n_frames * hop. Like there, the audio is mirrored at sample 0, and at the window's end
    /// if it ends there; but where audio goes on beyond a border of the window, the true neighbours are used.
    /// Values below the window's maximum less 8 are raised to that, then (x + 4) / 4.
    /// Throws BadArgument if start_frame was dropped or n_frames is 0.
    void window(size_t start_frame, size_t n_frames, float* out) const;

    /// Forgets all audio from sample `samples` on. Throws BadArgument if that reaches what was dropped, or if the audio is
    /// emphasised: then what follows would depend on what was forgotten.
    void truncate(size_t samples);

    /// Frees the frames before `frame` (at most frames()) and their samples; indices stay as they are.
    void drop_before(size_t frame);

    /// Forgets everything: the next sample is sample 0.
    void reset();

private:
    size_t bands() const { return spectrogram_->mel_bands(); }
    size_t complete_frames(size_t samples) const;
    bool mirrors() const { return spectrogram_->convention() == MelParameters::Convention::whisper; }
    std::vector<float> gather(size_t first_frame, size_t end_frame, size_t window_end) const;

    const MelSpectrogram* spectrogram_;
    std::vector<float> samples_;  ///< from first_sample_ on, emphasised
    float last_ = 0;              ///< sample pushed last, as it was
    std::vector<float> raw_;      ///< [frames][mel_bands] from first_frame_ on
    size_t first_sample_ = 0;
    size_t first_frame_ = 0;
};

/// Each band of `frames` [count][mel_bands] to mean 0 and (unbiased) deviation 1 over time, as NeMo's `per_feature`.
void normalise_bands(float* frames, size_t count, size_t mel_bands);

}  // namespace stenod
