#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/weight_reader.h"
#include "parakeet/model.h"

namespace stenod::parakeet {

/// Declares the parts of a Parakeet model, by the names that they have in the file, and fills them once they have memory.
/// Every method throws BadModel naming the tensor.
class PartReader {
public:
    /// Without `biases`, the blocks' linear layers get zeros: what is computed is the same. With `layer_norm`, that and not
    /// batch norm follows the depthwise convolutions.
    PartReader(GgufFile& file, ggml_context* context, const EncoderSize& size, bool biases, bool layer_norm)
        : weights_(file, context, true), size_(size), biases_(biases), layer_norm_(layer_norm) {}

    Subsampling subsampling();
    /// The block whose tensors' names begin with `prefix`.
    ConformerBlock block(const std::string& prefix);
    /// The tensors of a head whose sizes are known.
    void read_transducer(HeadWeights& head);
    void read_ctc(HeadWeights& head);

    void fill() { weights_.fill(); }
    size_t parameters() const { return weights_.parameters(); }

private:
    using Values = std::function<std::vector<float>()>;

    Norm norm(const std::string& name);
    ggml_tensor* bias(const std::string& name, int64_t n);
    Linear linear(const std::string& name, int64_t in, int64_t out);
    ggml_tensor* kernels(const std::string& name, std::vector<int64_t> taps, int64_t channels);
    Subsampling::Separable separable(const std::string& prefix, int depthwise, int pointwise);
    FeedForward feed_forward(const std::string& block, const std::string& number);
    Values bias_values(const std::string& name);
    ggml_tensor* query_bias(const std::string& attention, const std::string& name);
    void read_depthwise(const std::string& prefix, ConformerBlock& block);
    void fold_batch_norm(const std::string& norm, const std::string& name, ConformerBlock& block);

    WeightReader weights_;
    EncoderSize size_;
    bool biases_, layer_norm_;
};

}  // namespace stenod::parakeet
