#pragma once

#include "ggml.h"

namespace stenod::parakeet {

/// One step of an LSTM cell for several columns, in one pass over memory.
///
/// `from_input`, `from_hidden`: [4 * hidden, columns], rows of gates in torch's order i, f, g, o; `bias`: [4 * hidden];
/// `cell`: [hidden, columns]. Gives [hidden, 2 * columns]: first each column's h, then each column's c.
ggml_tensor* lstm_cell(ggml_context* context, ggml_tensor* from_input, ggml_tensor* from_hidden, ggml_tensor* bias,
                       ggml_tensor* cell);

}  // namespace stenod::parakeet
