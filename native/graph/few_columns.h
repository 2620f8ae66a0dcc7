#pragma once

#include <cstdint>

#include "graph/matmul.h"

namespace stenod {

/// Of a packed q8_0 matrix: for each block of kBlock columns of a panel the scales of all its rows, then the values.
struct PanelBlock {
    static constexpr int64_t kBlock = 32;  ///< values of a row that share a scale
    uint16_t scales[kPanelRows];
    int8_t values[kBlock * kPanelRows];
};

/// More columns are better multiplied once a panel's values are f32 in the cache.
constexpr int64_t kFewColumns = 16;

/// A panel [in][kPanelRows], of f16 values or of PanelBlocks, times a strip of at most kFewColumns.
using FewColumnsProduct = void (*)(const void* panel, int64_t in, const Strip& strip);

/// What this processor can do for a type; null: nothing. A token's pass is bound by how fast the weights come from
/// memory: they go from there into registers, and are converted on the way. Sums are made in the order of the wide
/// product, so that it does not show which of the two made them.
FewColumnsProduct few_columns_product(ggml_type type);

}  // namespace stenod
