#pragma once

#include <memory>
#include <string>

#include "parakeet/model.h"

namespace stenod::tests {

/// A small Parakeet's character; its weights are random, but always the same.
struct ParakeetSize {
    bool cache_aware = true;
    bool layer_norm = true;
    bool biases = false;
    std::string head = "tdt";
    int context_left = -1, context_right = -1;  ///< where it is not cache-aware
    ggml_type type = GGML_TYPE_F32;
    std::string misshapen;  ///< the tensor whose first dimension is changed
    int extra = 0;          ///< by so much
};

/// Writes the file to a temporary path, which is returned.
std::string write_random_parakeet(const ParakeetSize& size);

/// The same, loaded; the file is gone.
std::shared_ptr<const parakeet::Model> random_parakeet(const ParakeetSize& size = {});

}  // namespace stenod::tests
