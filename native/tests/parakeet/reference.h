#pragma once

#include <vector>

#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::tests {

/// The predictor and the joint in double precision, written from the definitions, one token and one frame at a time.
class ReferenceHead {
public:
    struct State {
        std::vector<std::vector<double>> h, c;  ///< by layer
    };

    explicit ReferenceHead(const parakeet::HeadWeights& weights);

    State start() const;  ///< after blank
    State after(const State& state, int token) const;
    /// [outputs]
    std::vector<double> logits(const State& state, const float* encoder_frame) const;

private:
    using Matrix = std::vector<std::vector<double>>;
    static Matrix matrix(const ggml_tensor* tensor);
    static std::vector<double> times(const Matrix& matrix, const std::vector<double>& x);

    const parakeet::HeadWeights& weights_;
    Matrix embedding_, encoder_, predictor_, output_;
    std::vector<Matrix> input_, recurrent_;
    std::vector<std::vector<float>> bias_;
    std::vector<float> encoder_bias_, predictor_bias_, output_bias_;
};

/// Greedy search as NeMo's GreedyTDTInfer and GreedyRNNTInfer go through the frames, one stream, frame by frame.
std::vector<parakeet::Token> reference_greedy(const parakeet::HeadWeights& weights, const std::vector<float>& frames);

/// log(softmax(values)).
std::vector<double> log_softmax(const double* values, size_t count);

}  // namespace stenod::tests
