#include "parakeet/input.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "errors.h"

namespace stenod::parakeet {

namespace {

/// For a cache-aware model: mel frames are made once, and kept only as far as the next frame depends on them.
class CachedInput final : public Input {
public:
    CachedInput(const Model& model, AttentionContext context) : model_(model), mel_(model.mel), cache_(model, context) {}

    int chunk() const override { return cache_.chunk(); }

    size_t needed(int chunks) const override {
        const int64_t mel_frames = mel_of_frame(model_, cache_.frames() + chunks * chunk() - 1).end;
        // The last mel frame's window, and one sample more: see LogMelStream.
        return static_cast<size_t>((mel_frames - 1) * Model::kHop) + model_.mel.window() / 2 + 1;
    }

    void push(const float* samples, size_t count) override { mel_.push(samples, count); }

    Chunk take(int chunks, bool last, size_t samples) override {
        const int64_t first = cache_.frames(), from = mel_of_frame(model_, first).begin;
        int64_t count = chunks * chunk(), to = mel_of_frame(model_, first + count - 1).end;
        if (last) {
            to = static_cast<int64_t>(samples / Model::kHop);
            // Audio that was heard already cannot be cut off any more.
            count = samples < mel_.samples() ? 0 : std::max<int64_t>(0, frames_at_end(model_, to) - first);
        }
        taken_ = static_cast<int>(count);
        Chunk chunk;
        chunk.count = taken_;
        if (count == 0) return chunk;
        rows_.resize(static_cast<size_t>(std::max<int64_t>(0, to - from)) * model_.mel.mel_bands());
        mel_.copy_frames(static_cast<size_t>(from), static_cast<size_t>(std::max<int64_t>(0, to - from)), rows_.data());
        chunk.request.mel = {rows_.data(), from, std::max<int64_t>(0, to - from), last};
        chunk.request.count = taken_;
        chunk.request.cache = &cache_;
        return chunk;
    }

    void advance() override {
        cache_.advance(taken_);
        taken_ = 0;
        mel_.drop_before(static_cast<size_t>(mel_of_frame(model_, cache_.frames()).begin));
    }

    void reset() override {
        mel_.reset();
        cache_.reset();
        taken_ = 0;
    }

private:
    const Model& model_;
    LogMelStream mel_;
    EncoderCache cache_;
    std::vector<float> rows_;
    int taken_ = 0;
};

/// For a model whose frames see everything: left context, chunk and look-ahead are encoded as if they were all there is.
class WindowedInput final : public Input {
public:
    WindowedInput(const Model& model, int left, int chunk, int lookahead)
        : model_(model), left_(left), chunk_(chunk), lookahead_(lookahead) {}

    int chunk() const override { return chunk_; }

    size_t needed(int chunks) const override {
        return static_cast<size_t>(next_ + chunks * chunk_ + lookahead_) * Model::kFrameSamples;
    }

    void push(const float* samples, size_t count) override { samples_.insert(samples_.end(), samples, samples + count); }

    Chunk take(int chunks, bool last, size_t samples) override {
        const int64_t begin = std::max<int64_t>(0, next_ - left_);
        const size_t begin_sample = static_cast<size_t>(begin) * Model::kFrameSamples;
        const size_t end_sample = std::max(begin_sample, last ? samples : needed(chunks));
        const Clip clip{samples_.data() + (begin_sample - first_sample_), end_sample - begin_sample};
        rows_ = features(model_, clip);
        const auto mel_frames = static_cast<int64_t>(rows_.size() / model_.mel.mel_bands());
        const int64_t frames = frames_at_end(model_, mel_frames);
        Chunk chunk;
        chunk.first = static_cast<int>(next_ - begin);
        const int64_t left_over = std::max<int64_t>(0, frames - chunk.first);
        chunk.count = taken_ = static_cast<int>(last ? left_over : std::min<int64_t>(chunks * chunk_, left_over));
        chunk.lookahead = static_cast<int>(left_over) - chunk.count;
        if (chunk.count == 0) return chunk;
        chunk.request.mel = {rows_.data(), 0, mel_frames, true};
        chunk.request.count = static_cast<int>(frames);
        return chunk;
    }

    void advance() override {
        next_ += taken_;
        taken_ = 0;
        const size_t kept = static_cast<size_t>(std::max<int64_t>(0, next_ - left_)) * Model::kFrameSamples;
        const size_t unneeded = std::min(kept - std::min(kept, first_sample_), samples_.size());
        samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(unneeded));
        first_sample_ += unneeded;
    }

    void reset() override {
        samples_.clear();
        first_sample_ = 0;
        next_ = 0;
        taken_ = 0;
    }

private:
    const Model& model_;
    int left_, chunk_, lookahead_;
    std::vector<float> samples_;  ///< from first_sample_ on
    size_t first_sample_ = 0;
    int64_t next_ = 0;            ///< frame
    int taken_ = 0;
    std::vector<float> rows_;
};

int checked_frames(const char* name, double seconds, int least) {
    if (!(seconds >= 0 && seconds <= 600)) throw BadArgument(std::string(name) + ": must be from 0 to 600");
    return std::max(least, static_cast<int>(std::lround(seconds / Model::kSecondsPerFrame)));
}

}  // namespace

AttentionContext context_for(const Model& model, std::optional<int> lookahead_ms) {
    AttentionContext best = model.contexts.front();
    if (!lookahead_ms) return best;
    const auto milliseconds = [](const AttentionContext& context) {
        return static_cast<int>(std::lround(context.right * Model::kSecondsPerFrame * 1000));
    };
    const auto better = [&](const AttentionContext& a, const AttentionContext& b) {
        const bool a_fits = milliseconds(a) <= *lookahead_ms, b_fits = milliseconds(b) <= *lookahead_ms;
        if (a_fits != b_fits) return b_fits;
        return a_fits ? a.right < b.right : a.right > b.right;
    };
    return *std::max_element(model.contexts.begin(), model.contexts.end(), better);
}

std::vector<float> features(const Model& model, const Clip& clip) {
    LogMelStream stream(model.mel);
    stream.push(clip.samples, clip.count);
    const size_t frames = clip.count / Model::kHop, bands = model.mel.mel_bands();
    std::vector<float> rows(frames * bands);
    stream.copy_frames(0, frames, rows.data());
    if (model.normalise_mel) normalise_bands(rows.data(), frames, bands);
    return rows;
}

std::unique_ptr<Input> make_input(const Model& model, const StreamOptions& options) {
    if (options.lookahead_ms && (*options.lookahead_ms < 0 || *options.lookahead_ms > 60000)) {
        throw BadArgument("lookahead_ms: must be from 0 to 60000");
    }
    if (model.cache_aware) return std::make_unique<CachedInput>(model, context_for(model, options.lookahead_ms));
    const double lookahead_s = options.lookahead_ms ? *options.lookahead_ms / 1000.0 : options.lookahead_s;
    return std::make_unique<WindowedInput>(model, checked_frames("left_s", options.left_s, 0),
                                           checked_frames("chunk_s", options.chunk_s, 1),
                                           checked_frames("lookahead_s", lookahead_s, 0));
}

}  // namespace stenod::parakeet
