#pragma once

#include "ggml.h"

namespace stenod {

/// Attention of every row of `query` to all rows of `key` and `value`, all f32 [width, rows] in `heads` parts of their
/// width, scores divided by the root of a part's width: [width, rows of query]. What a row gets depends neither on the
/// other queries nor on the number of threads, to the bit.
ggml_tensor* attend_to_all(ggml_context* context, ggml_tensor* query, ggml_tensor* key, ggml_tensor* value, int heads);

}  // namespace stenod
