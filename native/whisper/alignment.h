#pragma once

#include <cstddef>
#include <vector>

namespace stenod::whisper {

/// Seconds from the window's start.
struct TokenTime {
    float start;
    float end;
};

/// Cross-attention of the alignment heads, after softmax: [heads][rows][row_stride], of which the first
/// `frames` columns are audio.
struct AttentionView {
    const float* weights;
    size_t heads;
    size_t rows;
    size_t frames;
    size_t row_stride;
};

/// Seconds per encoder frame.
constexpr double frame_seconds = 0.02;

/// When each row's token was said: normalised over rows, median-filtered (7) over frames, averaged over heads,
/// then the cheapest monotonic path (dynamic time warping). Row r starts at the first frame of its part of the path and
/// ends where row r + 1 starts; the last ends with the audio. Give the rows that *predict* the tokens, and last the one
/// that predicts end of text, so that the last token's end is told too (OpenAI's layout). Any sizes are allowed; no
/// rows or no frames: all times 0. Throws BadArgument if the view has no heads or row_stride < frames.
std::vector<TokenTime> token_times(const AttentionView& attention);

}  // namespace stenod::whisper
