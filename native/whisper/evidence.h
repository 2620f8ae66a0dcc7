#pragma once

#include <cstddef>
#include <vector>

#include "whisper/model.h"

namespace stenod::whisper {

/// Positions (20 ms) of silence that the encoder sees, at least, after the audio. The model was trained with windows
/// of 30 s, mostly shorter utterances: with 1 s it makes a fifth more errors than with the full window, with 4 s none.
constexpr int kTrailingSilence = 200;

/// How many tokens so many seconds of audio can hold: bounds the work on audio that makes the model ramble.
int most_tokens(double seconds);

/// Whether the tokens' tail repeats itself; then the first index that belongs to a repetition, else tokens.size().
size_t loop_start(const std::vector<int>& tokens);

/// Whether somebody was heard to speak, by the decoder's own account. What is written over noise or music has
/// less of it than what is written over a voice. `avg_logprob` is that of the whole text.
bool speech_evident(const Model& model, const std::vector<int>& tokens, const std::vector<float>& logprobs,
                    float avg_logprob, float no_speech_prob);

}  // namespace stenod::whisper
