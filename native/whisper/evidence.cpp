#include "whisper/evidence.h"

#include <algorithm>

namespace stenod::whisper {

int most_tokens(double seconds) { return std::min(224, 24 + static_cast<int>(12 * seconds)); }

bool speech_evident(const Model& model, const WindowResult& window) {
    return std::any_of(window.tokens.begin(), window.tokens.end(), [&](int token) { return token < model.token.eot; });
}

}  // namespace stenod::whisper
