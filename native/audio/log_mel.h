#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stenod {

/// What a model's front end was trained with. The filterbank comes from the model file.
struct MelParameters {
    int n_fft = 400;
    int hop = 160;
    int mel_bands = 0;
    /// [mel_bands][n_fft / 2 + 1], row-major.
    std::vector<float> filters;
};

/// The log-mel transform of single frames: immutable, may be used from many threads.
class MelSpectrogram {
public:
    /// Throws BadArgument if the sizes do not fit each other or n_fft is not a multiple of 4 made of 2, 3 and 5.
    explicit MelSpectrogram(MelParameters parameters);

    int n_fft() const { return n_fft_; }
    int hop() const { return hop_; }
    int mel_bands() const { return mel_bands_; }

    /// `out` [count][mel_bands] becomes log10(max(mel power, 1e-10)), not normalised, of `count` frames:
    /// frame i is the n_fft samples that begin at samples[i * hop]. A frame's values depend on
    /// its own samples only, to the bit, however many are computed together.
    void compute(const float* samples, size_t count, float* out) const;

private:
    struct Stage {
        int radix;
        int stride;                  ///< product of the radices of the stages before
        std::vector<float> twiddles; ///< [butterfly group][radix - 1] complex
        std::vector<float> roots;    ///< [radix][radix] complex: the DFT of that length
    };
    struct Band {
        int first_bin;
        std::vector<float> weights;
    };

    void fourier_power(const float* samples, size_t count, float* work) const;

    int n_fft_;
    int hop_;
    int mel_bands_;
    std::vector<float> window_;     ///< periodic Hann [n_fft]
    std::vector<Stage> stages_;     ///< of the complex transform of n_fft / 2 points
    std::vector<float> unpacking_;  ///< exp(-2 pi i k / n_fft), complex [n_fft / 2 + 1]
    std::vector<Band> bands_;       ///< each filter without its zeros
};

/// The log-mel frames of audio that arrives in pieces. Frame f is centred on sample f * hop.
/// Sample and frame indices count from the last reset, also after `drop_before`. Not thread-safe.
class LogMelStream {
public:
    /// `spectrogram` must outlive the stream.
    explicit LogMelStream(const MelSpectrogram& spectrogram);

    /// Appends samples (nominally in [-1, 1]; those that are not finite count as 0) and computes the
    /// frames that they complete: constant amortised time per sample, same frames for any split.
    void push(const float* samples, size_t count);

    /// Samples pushed since the last reset, less those truncated.
    size_t samples() const { return first_sample_ + samples_.size(); }

    /// Frames whose samples have all arrived.
    size_t frames() const { return first_frame_ + raw_.size() / bands(); }

    /// The oldest frame that is still held.
    size_t first_frame() const { return first_frame_; }

    /// Un-normalised log10 mel [mel_bands] of a complete frame: first_frame() <= index < frames().
    const float* frame(size_t index) const { return &raw_[(index - first_frame_) * bands()]; }

    /// Writes the normalised matrix [mel_bands][n_frames] (time contiguous) of the audio from `start_frame` on,
    /// followed by digital silence: what Whisper's feature extractor makes of the samples from start_frame * hop,
    /// padded with zeros to n_frames * hop. Like there, the audio is mirrored at sample 0, and at the window's end
    /// if it ends there; but where audio goes on beyond a border of the window, the true neighbours are used.
    /// Values below the window's maximum less 8 are raised to that, then (x + 4) / 4.
    /// Throws BadArgument if start_frame was dropped or n_frames is 0.
    void window(size_t start_frame, size_t n_frames, float* out) const;

    /// Forgets all audio from sample `samples` on. Throws BadArgument if that reaches what was dropped.
    void truncate(size_t samples);

    /// Frees the frames before `frame` (at most frames()); indices stay as they are.
    void drop_before(size_t frame);

    /// Forgets everything: the next sample is sample 0.
    void reset();

private:
    size_t bands() const { return static_cast<size_t>(spectrogram_->mel_bands()); }
    void compute_complete_frames();
    std::vector<float> incomplete_frames(size_t first, size_t end, size_t window_end) const;

    const MelSpectrogram* spectrogram_;
    std::vector<float> samples_;  ///< from first_sample_ on
    std::vector<float> raw_;      ///< [frames][mel_bands] from first_frame_ on
    size_t first_sample_ = 0;
    size_t first_frame_ = 0;
};

}  // namespace stenod
