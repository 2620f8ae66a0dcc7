#pragma once

#include "whisper/window.h"

namespace stenod::whisper {

/// Positions (20 ms) of silence that the encoder sees, at least, after the audio: the model was trained with some.
constexpr int kTrailingSilence = 50;

/// How many tokens so many seconds of audio can hold: bounds the work on audio that makes the model ramble.
int most_tokens(double seconds);

/// Whether somebody was heard to speak, by the decoder's own account. What is written over noise or music has
/// less of it than what is written over a voice.
bool speech_evident(const Model& model, const WindowResult& window);

}  // namespace stenod::whisper
