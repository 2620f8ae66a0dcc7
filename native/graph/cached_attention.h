#pragma once

#include "ggml.h"

namespace stenod {

/// Attention of some rows of `query` (f32 [head width, rows, heads]) to keys and values that are kept as f16
/// ([head width, cells, heads], as many cells as there are when it is computed), scores divided by the root of a head's
/// width: [head width * heads, rows]. `mask` (f16 [cells, rows], may be null): cells that are not 0 are not seen. What a
/// row gets depends neither on the other rows nor on the number of threads, to the bit. Null where this processor, or
/// a head of this width, needs another product.
ggml_tensor* attend_to_cache(ggml_context* context, ggml_tensor* query, ggml_tensor* keys, ggml_tensor* values,
                             ggml_tensor* mask);

}  // namespace stenod
