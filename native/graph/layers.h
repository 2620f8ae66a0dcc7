#pragma once

#include "graph/matmul.h"
#include "graph/ops.h"

namespace stenod {

/// The rows of a matrix of results that may be of any number are padded with zeros to a multiple of this: then one kernel
/// serves all of them.
constexpr int kRowTile = kPanelRows;

struct Linear {
    ggml_tensor* weight = nullptr;
    ggml_tensor* bias = nullptr;  ///< null where there is none
};

struct Norm {
    ggml_tensor* weight = nullptr;
    ggml_tensor* bias = nullptr;
};

inline ggml_tensor* normalise(ggml_context* context, const Norm& norm, ggml_tensor* x) {
    return layer_norm(context, x, norm.weight, norm.bias);
}

inline ggml_tensor* apply(ggml_context* context, const Linear& linear, ggml_tensor* x) {
    ggml_tensor* product = multiply(context, linear.weight, x);
    return linear.bias ? add_bias(context, product, linear.bias) : product;
}

/// linear(x) + residual
inline ggml_tensor* apply_residual(ggml_context* context, const Linear& linear, ggml_tensor* x,
                                   ggml_tensor* residual) {
    return bias_residual(context, multiply(context, linear.weight, x), linear.bias, residual);
}

}  // namespace stenod
