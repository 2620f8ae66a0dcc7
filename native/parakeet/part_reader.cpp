#include "parakeet/part_reader.h"

#include <algorithm>
#include <cmath>

namespace stenod::parakeet {

namespace {

constexpr float kNormEpsilon = 1e-5f;

/// [in][out] of [out][in].
std::vector<float> transposed(const std::vector<float>& values, size_t in, size_t out) {
    std::vector<float> result(values.size());
    for (size_t i = 0; i < in; ++i) {
        for (size_t o = 0; o < out; ++o) result[i * out + o] = values[o * in + i];
    }
    return result;
}

}  // namespace

Norm PartReader::norm(const std::string& name) {
    return {weights_.vector(name + ".weight", size_.width), weights_.vector(name + ".bias", size_.width)};
}

ggml_tensor* PartReader::bias(const std::string& name, int64_t n) {
    if (biases_) return weights_.vector(name + ".bias", n);
    return weights_.computed({n}, [n] { return std::vector<float>(static_cast<size_t>(n)); });
}

Linear PartReader::linear(const std::string& name, int64_t in, int64_t out) {
    return {weights_.matrix(name + ".weight", in, out), bias(name, out)};
}

/// Kernels [taps] of `channels`, with the channels fastest.
ggml_tensor* PartReader::kernels(const std::string& name, std::vector<int64_t> taps, int64_t channels) {
    int64_t count = 1;
    for (int64_t length : taps) count *= length;
    taps.push_back(channels);
    return weights_.computed({channels, count}, [values = weights_.floats(name, taps), count, channels] {
        return transposed(values(), static_cast<size_t>(count), static_cast<size_t>(channels));
    });
}

Subsampling::Separable PartReader::separable(const std::string& prefix, int depthwise, int pointwise) {
    const std::string first = prefix + std::to_string(depthwise), second = prefix + std::to_string(pointwise);
    const int64_t channels = size_.channels;
    return {kernels(first + ".weight", {3, 3}, channels), weights_.vector(first + ".bias", channels),
            {weights_.matrix(second + ".weight", channels, channels), weights_.vector(second + ".bias", channels)}};
}

Subsampling PartReader::subsampling() {
    const std::string prefix = "enc.pre_encode.conv.", out = "enc.pre_encode.out";
    Subsampling part;
    part.first = kernels(prefix + "0.weight", {3, 3}, size_.channels);
    part.first_bias = weights_.vector(prefix + "0.bias", size_.channels);
    part.second = separable(prefix, 2, 3);
    part.third = separable(prefix, 5, 6);
    part.out = {weights_.matrix(out + ".weight", size_.channels * size_.reduced_bands, size_.width),
                weights_.vector(out + ".bias", size_.width)};
    return part;
}

FeedForward PartReader::feed_forward(const std::string& block, const std::string& number) {
    const std::string name = block + "ff" + number;
    return {norm(block + "norm_ff" + number), linear(name + ".linear1", size_.width, size_.feed_forward),
            linear(name + ".linear2", size_.feed_forward, size_.width)};
}

ConformerBlock PartReader::block(const std::string& prefix) {
    const int64_t width = size_.width;
    ConformerBlock block;
    block.first = feed_forward(prefix, "1");
    block.attention_norm = norm(prefix + "norm_attn");
    const std::string attention = prefix + "attn.";
    block.query_key_value = weights_.stacked(
        {attention + "linear_q.weight", attention + "linear_k.weight", attention + "linear_v.weight"}, width, width);
    block.position = weights_.matrix(attention + "linear_pos.weight", width, width);
    block.bias_u = query_bias(attention, "pos_bias_u");
    block.bias_v = query_bias(attention, "pos_bias_v");
    block.value_bias = bias(attention + "linear_v", width);
    block.attention_out = linear(attention + "linear_out", width, width);
    block.convolution_norm = norm(prefix + "norm_conv");
    block.expand = linear(prefix + "conv.pointwise1", width, 2 * width);
    read_depthwise(prefix + "conv.", block);
    block.contract = linear(prefix + "conv.pointwise2", width, width);
    block.second = feed_forward(prefix, "2");
    block.out_norm = norm(prefix + "norm_out");
    return block;
}

PartReader::Values PartReader::bias_values(const std::string& name) {
    const auto width = static_cast<size_t>(size_.width);
    if (!biases_) return [width] { return std::vector<float>(width); };
    return weights_.floats(name + ".bias", {size_.width});
}

ggml_tensor* PartReader::query_bias(const std::string& attention, const std::string& name) {
    const auto position = weights_.floats(attention + name, {size_.head_width(), size_.heads});
    return weights_.computed({size_.width}, [position, query = bias_values(attention + "linear_q")] {
        std::vector<float> sum = position(), bias = query();
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += bias[i];
        return sum;
    });
}

void PartReader::read_depthwise(const std::string& prefix, ConformerBlock& block) {
    const std::string name = prefix + "depthwise";
    if (layer_norm_) {
        block.depthwise = kernels(name + ".weight", {size_.kernel}, size_.width);
        block.depthwise_bias = bias(name, size_.width);
        block.depthwise_norm = norm(prefix + "bn");
    } else {
        fold_batch_norm(prefix + "bn", name, block);
    }
}

/// With fixed statistics, batch norm is a scale and a shift of each channel.
void PartReader::fold_batch_norm(const std::string& norm, const std::string& name, ConformerBlock& block) {
    const auto width = static_cast<size_t>(size_.width);
    const auto channels = [&](const std::string& full_name) { return weights_.floats(full_name, {size_.width}); };
    const auto scales = [weight = channels(norm + ".weight"), variance = channels(norm + ".running_var")] {
        std::vector<float> scale = weight(), spread = variance();
        for (size_t i = 0; i < scale.size(); ++i) scale[i] /= std::sqrt(std::max(spread[i], 0.0f) + kNormEpsilon);
        return scale;
    };
    const auto kernel = weights_.floats(name + ".weight", {size_.kernel, size_.width});
    block.depthwise = weights_.computed({size_.width, size_.kernel}, [=, taps = static_cast<size_t>(size_.kernel)] {
        std::vector<float> values = transposed(kernel(), taps, width);
        const std::vector<float> scale = scales();
        for (size_t i = 0; i < values.size(); ++i) values[i] *= scale[i % width];
        return values;
    });
    const auto shift = channels(norm + ".bias"), mean = channels(norm + ".running_mean");
    block.depthwise_bias = weights_.computed({size_.width}, [=, before = bias_values(name)] {
        std::vector<float> values = before();
        const std::vector<float> scale = scales(), means = mean(), shifts = shift();
        for (size_t i = 0; i < width; ++i) values[i] = (values[i] - means[i]) * scale[i] + shifts[i];
        return values;
    });
}

void PartReader::read_ctc(HeadWeights& head) {
    head.ctc = weights_.padded_matrix("head.ctc.weight", head.encoder_width, head.tokens + 1);
    head.ctc_bias = weights_.padded_vector("head.ctc.bias", head.tokens + 1);
}

void PartReader::read_transducer(HeadWeights& head) {
    const int64_t hidden = head.hidden;
    head.embedding = weights_.table("pred.embed.weight", hidden, head.tokens + 1);
    for (size_t i = 0; i < head.lstm.size(); ++i) {
        const std::string layer = "pred.lstm." + std::to_string(i) + ".";
        head.lstm[i] = {weights_.matrix(layer + "Wx", hidden, 4 * hidden), weights_.matrix(layer + "Wh", hidden, 4 * hidden),
                        weights_.vector(layer + "bias", 4 * hidden)};
    }
    head.encoder = weights_.matrix("joint.enc.weight", head.encoder_width, head.joint_width);
    head.encoder_bias = weights_.vector("joint.enc.bias", head.joint_width);
    head.predictor = weights_.matrix("joint.pred.weight", hidden, head.joint_width);
    head.predictor_bias = weights_.vector("joint.pred.bias", head.joint_width);
    head.output = weights_.padded_matrix("joint.out.weight", head.joint_width, head.outputs());
    head.output_bias = weights_.padded_vector("joint.out.bias", head.outputs());
}

}  // namespace stenod::parakeet
