#pragma once

#include "ggml.h"

namespace stenod {

/// The f32 values of a tensor's row, in any dimension above the first.
inline float* row(const ggml_tensor* tensor, int64_t index) {
    return reinterpret_cast<float*>(static_cast<char*>(tensor->data) + index * static_cast<int64_t>(tensor->nb[1]));
}

/// Layer normalisation over the first dimension with scale and shift, in one pass over memory.
ggml_tensor* layer_norm(ggml_context* context, ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias);

/// GELU(x + bias) with the exact (erf) GELU, to 2e-6; `bias` is added along the first dimension. Overwrites x.
ggml_tensor* bias_gelu(ggml_context* context, ggml_tensor* x, ggml_tensor* bias);

/// GELU(x), likewise. Overwrites x.
ggml_tensor* gelu(ggml_context* context, ggml_tensor* x);

/// SiLU(x + bias), `bias` along the first dimension. Overwrites x.
ggml_tensor* bias_silu(ggml_context* context, ggml_tensor* x, ggml_tensor* bias);

/// The gated linear unit of x + bias: of the first dimension, the first half times the sigmoid of the second half.
ggml_tensor* bias_glu(ggml_context* context, ggml_tensor* x, ggml_tensor* bias);

/// (x + bias) / 2 + residual, `bias` along the first dimension. Overwrites x.
ggml_tensor* bias_half_residual(ggml_context* context, ggml_tensor* x, ggml_tensor* bias, ggml_tensor* residual);

/// x + bias + residual, `bias` along the first dimension. Overwrites x.
ggml_tensor* bias_residual(ggml_context* context, ggml_tensor* x, ggml_tensor* bias, ggml_tensor* residual);

/// x + bias, `bias` along the first dimension. Overwrites x.
ggml_tensor* add_bias(ggml_context* context, ggml_tensor* x, ggml_tensor* bias);

}  // namespace stenod
