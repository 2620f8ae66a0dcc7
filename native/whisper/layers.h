#pragma once

#include <cmath>

#include "graph/layers.h"
#include "whisper/model.h"

namespace stenod::whisper {

/// What attention scores are multiplied by.
inline float attention_scale(const StackSize& size) { return 1.0f / std::sqrt(static_cast<float>(size.head_width())); }

inline ggml_tensor* feed_forward(ggml_context* context, const Block& block, ggml_tensor* x) {
    ggml_tensor* hidden = multiply(context, block.up.weight, normalise(context, block.mlp_norm, x));
    return apply_residual(context, block.down, bias_gelu(context, hidden, block.up.bias), x);
}

}  // namespace stenod::whisper
