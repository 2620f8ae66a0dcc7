#pragma once

#include <random>
#include <vector>

#include "graph/executor.h"
#include "parakeet/transducer.h"

namespace stenod::tests {

/// Sizes and character of a head with random weights.
struct HeadSize {
    int tokens = 40;
    std::vector<int> durations{0, 1, 2, 3, 4};  ///< empty: RNN-T
    int layers = 2;
    int encoder_width = 64, hidden = 64, joint_width = 32;
    int max_symbols = 10;
    float blank_bias = 1;
    float stay_bias = 0;  ///< of duration 0
    bool ctc = false;
    ggml_type type = GGML_TYPE_F32;
};

/// A head with seeded random weights that finds something in random frames.
class RandomHead {
public:
    explicit RandomHead(const HeadSize& size = {}, unsigned seed = 1);

    parakeet::HeadWeights weights;

    /// Encoder frames, [count][encoder_width].
    std::vector<float> frames(int count, unsigned seed) const;

private:
    ggml_tensor* matrix(int in, int out, int padded_out, float scale);
    ggml_tensor* vector(int n, int padded, float scale);

    ggml_type type_;
    std::mt19937 random_;
    ContextPtr context_;
};

/// A tensor's values as floats.
std::vector<float> values(const ggml_tensor* tensor);

/// The executor that the tests share: one thread.
Executor& executor();

}  // namespace stenod::tests
