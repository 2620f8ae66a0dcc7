#pragma once

#include "ggml.h"

namespace stenod {

/// Matrices whose rows are a multiple of this can be packed.
constexpr int64_t kPanelRows = 32;

/// Makes of a tensor with memory, [in, out] of type f32, f16 or q8_0, a packed one, which only `multiply` and `look_up`
/// can read: the values of kPanelRows rows lie side by side. `rows`: its data as ggml has it. Where type or shape cannot
/// be packed, it gets that data and stays what it is.
void pack(ggml_tensor* weight, const void* rows);

/// weight times every column of `x` [in, columns] (f32): [out, columns]. With a packed weight each value is a sum in one
/// order, so that it depends neither on the other columns nor on the number of threads, to the bit; with another this
/// is ggml's product.
ggml_tensor* multiply(ggml_context* context, ggml_tensor* weight, ggml_tensor* x);

/// Rows of `weight` [in, out], packed or not, as f32: [in, indices].
ggml_tensor* look_up(ggml_context* context, ggml_tensor* weight, ggml_tensor* indices);

/// Where a product is made: columns of x, and of the result.
struct Strip {
    const float* x;
    int64_t x_stride;
    float* out;
    int64_t out_stride;
    int64_t columns;
};

/// `depth` columns from column `first` on of an f32 panel, [in][kPanelRows], times a strip's columns of x, which begin
/// there too: added to what is there, unless `first` is 0.
void multiply_panel(const float* panel, int64_t first, int64_t depth, const Strip& strip);

}  // namespace stenod
