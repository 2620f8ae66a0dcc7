#include "random_head.h"

#include "graph/layers.h"
#include "random_values.h"

namespace stenod::tests {

namespace {

int padded(int rows) {
    constexpr int tile = kRowTile;
    return (rows + tile - 1) / tile * tile;
}

}  // namespace

RandomHead::RandomHead(const HeadSize& size, unsigned seed) : type_(size.type), random_(seed) {
    // A context with its own memory: tensors can be filled at once.
    context_.reset(ggml_init({size_t{16} << 20, nullptr, false}));
    weights.encoder_width = size.encoder_width;
    weights.tokens = size.tokens;
    if (size.ctc) {
        weights.ctc = matrix(size.encoder_width, size.tokens + 1, padded(size.tokens + 1), 0.5f);
        weights.ctc_bias = vector(size.tokens + 1, padded(size.tokens + 1), 0.5f);
        static_cast<float*>(weights.ctc_bias->data)[size.tokens] += size.blank_bias;
        return;
    }
    weights.hidden = size.hidden;
    weights.joint_width = size.joint_width;
    weights.durations = size.durations;
    weights.max_symbols = size.max_symbols;
    weights.embedding = matrix(size.hidden, size.tokens + 1, size.tokens + 1, 1.0f);
    const size_t row = weights.embedding->nb[1];
    std::fill_n(static_cast<char*>(weights.embedding->data) + size.tokens * row, row, '\0');
    for (int i = 0; i < size.layers; ++i) {
        weights.lstm.push_back({matrix(size.hidden, 4 * size.hidden, 4 * size.hidden, 0.3f),
                                matrix(size.hidden, 4 * size.hidden, 4 * size.hidden, 0.3f),
                                vector(4 * size.hidden, 4 * size.hidden, 0.3f)});
    }
    weights.encoder = matrix(size.encoder_width, size.joint_width, size.joint_width, 0.3f);
    weights.encoder_bias = vector(size.joint_width, size.joint_width, 0.3f);
    weights.predictor = matrix(size.hidden, size.joint_width, size.joint_width, 0.5f);
    weights.predictor_bias = vector(size.joint_width, size.joint_width, 0.3f);
    const int outputs = weights.outputs();
    weights.output = matrix(size.joint_width, outputs, padded(outputs), 0.4f);
    weights.output_bias = vector(outputs, padded(outputs), 0.3f);
    float* bias = static_cast<float*>(weights.output_bias->data);
    bias[size.tokens] += size.blank_bias;
    if (!size.durations.empty()) bias[size.tokens + 1] += size.stay_bias;
}

std::vector<float> RandomHead::frames(int count, unsigned seed) const {
    return random_values(static_cast<size_t>(count) * weights.encoder_width, seed);
}

ggml_tensor* RandomHead::matrix(int in, int out, int padded_out, float scale) {
    ggml_tensor* tensor = ggml_new_tensor_2d(context_.get(), type_, in, padded_out);
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> floats(static_cast<size_t>(in) * padded_out);
    for (int i = 0; i < in * out; ++i) floats[i] = normal(random_);
    ggml_quantize_chunk(type_, floats.data(), tensor->data, 0, padded_out, in, nullptr);
    return tensor;
}

ggml_tensor* RandomHead::vector(int n, int padded, float scale) {
    ggml_tensor* tensor = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, padded);
    std::normal_distribution<float> normal(0, scale);
    for (int i = 0; i < padded; ++i) static_cast<float*>(tensor->data)[i] = i < n ? normal(random_) : 0;
    return tensor;
}

std::vector<float> values(const ggml_tensor* tensor) {
    std::vector<float> floats(ggml_nelements(tensor));
    if (tensor->type == GGML_TYPE_F32) {
        std::copy_n(static_cast<const float*>(tensor->data), floats.size(), floats.begin());
    } else {
        ggml_get_type_traits(tensor->type)->to_float(tensor->data, floats.data(), static_cast<int64_t>(floats.size()));
    }
    return floats;
}

Executor& executor() {
    static Executor executor(1);
    return executor;
}

}  // namespace stenod::tests
