#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "audio/log_mel.h"
#include "engine.h"
#include "whisper/encoder.h"
#include "whisper/window.h"

namespace stenod::whisper {

/// A prompt as tokens: as if it had been said just before. Empty for an empty text.
std::vector<int> encode_prompt(const Model& model, const std::string& text);

/// One recording on its way through windows of 30 s, each of which begins where the last one's text ended
/// (the transcription loop of Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", section 3.8).
/// While not done(): `begin_window`, decode `window()`, `end_window`.
class LongForm {
public:
    /// Throws BadArgument if the language is unknown.
    LongForm(const Model& model, const float* samples, size_t count, TranscribeOptions options);

    bool done() const { return seek_ >= content_; }
    void begin_window(Encoder& encoder, Pool<CrossCache>& caches, Pool<Lane>& lanes);
    WindowDecoding& window() { return *window_; }
    void end_window();

    double seconds_done() const;
    /// Once done.
    Transcription result();

private:
    void split(const WindowResult& window);
    void add_segment(const WindowResult& window, size_t first, size_t end, float start, float stop);
    float timestamp(int token) const;

    const Model& model_;
    TranscribeOptions options_;
    LogMelStream mel_;
    size_t seek_ = 0, content_ = 0, window_frames_ = 0;  ///< in hops of 10 ms
    int language_token_ = -1;
    std::vector<int> history_;
    size_t history_start_ = 0;
    Pool<CrossCache>::Pointer cross_;
    std::unique_ptr<WindowDecoding> window_;
    Transcription result_;
};

}  // namespace stenod::whisper
