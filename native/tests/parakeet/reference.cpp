#include "reference.h"

#include <algorithm>
#include <cmath>

#include "random_head.h"

namespace stenod::tests {

using parakeet::HeadWeights;
using parakeet::Token;

ReferenceHead::ReferenceHead(const HeadWeights& weights)
    : weights_(weights),
      embedding_(matrix(weights.embedding)),
      encoder_(matrix(weights.encoder)),
      predictor_(matrix(weights.predictor)),
      output_(matrix(weights.output)),
      encoder_bias_(values(weights.encoder_bias)),
      predictor_bias_(values(weights.predictor_bias)),
      output_bias_(values(weights.output_bias)) {
    for (const parakeet::LstmLayer& layer : weights.lstm) {
        input_.push_back(matrix(layer.input));
        recurrent_.push_back(matrix(layer.recurrent));
        bias_.push_back(values(layer.bias));
    }
}

ReferenceHead::Matrix ReferenceHead::matrix(const ggml_tensor* tensor) {
    const std::vector<float> all = values(tensor);
    Matrix rows;
    for (int64_t i = 0; i < tensor->ne[1]; ++i) {
        rows.emplace_back(all.begin() + i * tensor->ne[0], all.begin() + (i + 1) * tensor->ne[0]);
    }
    return rows;
}

std::vector<double> ReferenceHead::times(const Matrix& matrix, const std::vector<double>& x) {
    std::vector<double> product;
    for (const auto& row : matrix) {
        double sum = 0;
        for (size_t i = 0; i < row.size(); ++i) sum += row[i] * x[i];
        product.push_back(sum);
    }
    return product;
}

ReferenceHead::State ReferenceHead::start() const {
    const std::vector<std::vector<double>> zeros(weights_.lstm.size(), std::vector<double>(weights_.hidden));
    return after({zeros, zeros}, weights_.blank());
}

ReferenceHead::State ReferenceHead::after(const State& state, int token) const {
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    const size_t n = weights_.hidden;
    State next = state;
    std::vector<double> x = embedding_[token];
    for (size_t layer = 0; layer < weights_.lstm.size(); ++layer) {
        std::vector<double> gates = times(input_[layer], x);
        const std::vector<double> recurrent = times(recurrent_[layer], state.h[layer]);
        for (size_t i = 0; i < 4 * n; ++i) gates[i] += recurrent[i] + bias_[layer][i];
        for (size_t i = 0; i < n; ++i) {
            double& c = next.c[layer][i];
            c = sigmoid(gates[n + i]) * c + sigmoid(gates[i]) * std::tanh(gates[2 * n + i]);
            next.h[layer][i] = sigmoid(gates[3 * n + i]) * std::tanh(c);
        }
        x = next.h[layer];
    }
    return next;
}

std::vector<double> ReferenceHead::logits(const State& state, const float* encoder_frame) const {
    const std::vector<double> frame(encoder_frame, encoder_frame + weights_.encoder_width);
    std::vector<double> joined = times(encoder_, frame);
    const std::vector<double> predicted = times(predictor_, state.h.back());
    for (size_t i = 0; i < joined.size(); ++i) {
        joined[i] = std::max(0.0, joined[i] + encoder_bias_[i] + predicted[i] + predictor_bias_[i]);
    }
    std::vector<double> logits = times(output_, joined);
    logits.resize(weights_.outputs());
    for (size_t i = 0; i < logits.size(); ++i) logits[i] += output_bias_[i];
    return logits;
}

std::vector<double> log_softmax(const double* values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += std::exp(values[i]);
    std::vector<double> result(values, values + count);
    for (double& value : result) value -= std::log(sum);
    return result;
}

std::vector<Token> reference_greedy(const HeadWeights& weights, const std::vector<float>& frames) {
    const ReferenceHead head(weights);
    const auto argmax = [](auto first, auto last) { return static_cast<int>(std::max_element(first, last) - first); };
    const auto count = static_cast<int64_t>(frames.size() / weights.encoder_width);
    ReferenceHead::State state = head.start();
    std::vector<Token> tokens;
    for (int64_t t = 0; t < count;) {
        int64_t jump = 0;
        bool blank = false;
        for (int symbols = 0; jump == 0 && !blank && symbols < weights.max_symbols; ++symbols) {
            const std::vector<double> logits = head.logits(state, frames.data() + t * weights.encoder_width);
            const auto end = logits.begin() + weights.tokens + 1;
            const int token = argmax(logits.begin(), end);
            blank = token == weights.blank();
            if (!weights.durations.empty()) jump = weights.durations[argmax(end, logits.end())];
            if (blank) continue;
            const double logprob = log_softmax(logits.data(), weights.tokens + 1)[token];
            tokens.push_back({token, t, static_cast<int>(jump), static_cast<float>(logprob)});
            state = head.after(state, token);
        }
        t += std::max<int64_t>(1, jump);
    }
    return tokens;
}

}  // namespace stenod::tests
