#pragma once

#include "graph/executor.h"
#include "parakeet/batch.h"

namespace stenod::parakeet {

/// Multi-head attention with relative positions (Dai et al., "Transformer-XL", 2019) of every span's rows over the
/// frames that each may see, without ever holding the scores of more than a few rows. Keys and values of spans with a
/// cache go into that first.
///
/// `query_key_value` [3 * width, rows], `positions` [width, distances]; returns [width, rows], zero in rows of no span.
/// A row's values depend neither on its neighbours in the batch nor on the number of threads, to the bit.
ggml_tensor* attend(Graph& graph, const ConformerBlock& block, BlockView& view, ggml_tensor* query_key_value,
                    ggml_tensor* positions);

}  // namespace stenod::parakeet
