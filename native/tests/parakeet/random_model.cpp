#include "parakeet/random_model.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "gguf.h"

namespace stenod::tests {

namespace {

constexpr int kWidth = 64, kHeads = 4, kBlocks = 2, kFeedForward = 128, kKernel = 9, kChannels = 32, kBands = 32;
constexpr int kTokens = 40, kHidden = 32, kJoint = 32, kDurations = 5;

class Writer {
public:
    explicit Writer(const ParakeetSize& size) : size_(size) {
        ggml_init_params params{64u << 20, nullptr, false};
        context_.reset(ggml_init(params));
    }

    void text(const std::string& key, const std::string& value) {
        gguf_set_val_str(file_.get(), key.c_str(), value.c_str());
    }
    void number(const std::string& key, int value) {
        gguf_set_val_u32(file_.get(), key.c_str(), static_cast<uint32_t>(value));
    }
    void numbers(const std::string& key, const std::vector<int32_t>& values) {
        gguf_set_arr_data(file_.get(), key.c_str(), GGUF_TYPE_INT32, values.data(), values.size());
    }
    void tensor(const std::string& name, std::vector<int64_t> shape, float scale, float mean = 0,
                ggml_type type = GGML_TYPE_F32) {
        if (name == size_.misshapen) shape[0] += size_.extra;
        ggml_tensor* tensor = ggml_new_tensor(context_.get(), type, static_cast<int>(shape.size()), shape.data());
        ggml_set_name(tensor, name.c_str());
        std::normal_distribution<float> normal(mean, scale);
        std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
        for (float& value : values) value = normal(random_);
        if (mean > 0 && scale > 0) {
            for (float& value : values) value = std::abs(value);  // spreads and filters
        }
        ggml_quantize_chunk(type, values.data(), tensor->data, 0, ggml_nrows(tensor), tensor->ne[0], nullptr);
        gguf_add_tensor(file_.get(), tensor);
    }
    void vector(const std::string& name, int64_t n, float mean = 0) { tensor(name, {n}, 0.1f, mean); }
    void matrix(const std::string& name, int64_t in, int64_t out) {
        tensor(name, {in, out}, 1.0f / std::sqrt(static_cast<float>(in)), 0, size_.type);
    }
    void linear(const std::string& name, int64_t in, int64_t out) {
        matrix(name + ".weight", in, out);
        if (size_.biases) vector(name + ".bias", out);
    }
    void norm(const std::string& name) {
        vector(name + ".weight", kWidth, 1);
        vector(name + ".bias", kWidth);
    }

    void header();
    void front_end();
    void subsampling();
    void block(const std::string& prefix);
    void head();
    std::string write() {
        char path[] = "/tmp/stenod-test-XXXXXX";
        close(mkstemp(path));
        gguf_write_to_file(file_.get(), path, false);
        return path;
    }

private:
    struct FileDeleter {
        void operator()(gguf_context* file) const { gguf_free(file); }
    };
    ParakeetSize size_;
    std::unique_ptr<gguf_context, FileDeleter> file_{gguf_init_empty()};
    ContextPtr context_;
    std::mt19937 random_{11};
};

void Writer::header() {
    const std::string encoder = "stt.parakeet.encoder.";
    text("general.architecture", "parakeet");
    text("general.name", "random");
    text("stt.parakeet.head_kind", size_.head);
    number(encoder + "n_layers", kBlocks);
    number(encoder + "d_model", kWidth);
    number(encoder + "n_heads", kHeads);
    number(encoder + "d_ff", kFeedForward);
    number(encoder + "conv_kernel", kKernel);
    number(encoder + "subsampling_factor", 8);
    number(encoder + "subsampling_channels", kChannels);
    gguf_set_val_bool(file_.get(), (encoder + "use_bias").c_str(), size_.biases);
    gguf_set_val_bool(file_.get(), (encoder + "xscaling").c_str(), size_.biases);
    text(encoder + "conv_norm_type", size_.layer_norm ? "layer_norm" : "batch_norm");
    text(encoder + "att_context_style", size_.cache_aware ? "chunked_limited" : "regular");
    gguf_set_val_i32(file_.get(), (encoder + "att_context_left").c_str(), size_.cache_aware ? 14 : size_.context_left);
    gguf_set_val_i32(file_.get(), (encoder + "att_context_right").c_str(), size_.cache_aware ? 3 : size_.context_right);
    if (size_.cache_aware) numbers(encoder + "att_context_size_choices", {14, 3, 14, 1, 14, 0});
    if (size_.head == "ctc") return;
    number("stt.parakeet.predictor.hidden", kHidden);
    number("stt.parakeet.predictor.n_layers", 1);
    number("stt.parakeet.predictor.vocab", kTokens + 1);
    number("stt.parakeet.joint.hidden", kJoint);
    number("stt.parakeet.joint.num_extra_outputs", size_.head == "tdt" ? kDurations : 0);
    if (size_.head == "tdt") numbers("stt.parakeet.tdt.durations", {0, 1, 2, 3, 4});
}

void Writer::front_end() {
    text("stt.frontend.type", "mel");
    text("stt.frontend.window", "hann");
    text("stt.frontend.normalize", size_.cache_aware ? "none" : "per_feature");
    number("stt.frontend.num_mels", kBands);
    number("stt.frontend.sample_rate", 16000);
    number("stt.frontend.n_fft", 512);
    number("stt.frontend.win_length", 400);
    number("stt.frontend.hop_length", 160);
    tensor("fb", {257, kBands}, 0.002f, 0.002f);

    std::vector<std::string> pieces;
    for (int i = 0; i < kTokens; ++i) {
        // Every third piece begins a word.
        pieces.push_back((i % 3 == 0 ? "\xE2\x96\x81" : "") + std::string(1, static_cast<char>('a' + i % 26)) +
                         static_cast<char>('a' + i / 26));
    }
    pieces.back() = "<EOU>";
    pieces.push_back("<blank>");
    std::vector<const char*> pointers;
    for (const std::string& piece : pieces) pointers.push_back(piece.c_str());
    gguf_set_arr_str(file_.get(), "tokenizer.ggml.tokens", pointers.data(), pointers.size());
    number("tokenizer.ggml.blank_token_id", kTokens);
}

void Writer::subsampling() {
    const std::string conv = "enc.pre_encode.conv.";
    for (int i : {0, 2, 5}) {
        tensor(conv + std::to_string(i) + ".weight", {3, 3, 1, kChannels}, 0.3f);
        vector(conv + std::to_string(i) + ".bias", kChannels);
    }
    for (int i : {3, 6}) {
        tensor(conv + std::to_string(i) + ".weight", {1, 1, kChannels, kChannels}, 0.3f);
        vector(conv + std::to_string(i) + ".bias", kChannels);
    }
    matrix("enc.pre_encode.out.weight", kChannels * (size_.cache_aware ? 5 : 4), kWidth);
    vector("enc.pre_encode.out.bias", kWidth);
}

void Writer::block(const std::string& prefix) {
    for (const char* part : {"norm_ff1", "norm_attn", "norm_conv", "norm_ff2", "norm_out"}) norm(prefix + part);
    for (const char* part : {"ff1", "ff2"}) {
        linear(prefix + part + ".linear1", kWidth, kFeedForward);
        linear(prefix + part + ".linear2", kFeedForward, kWidth);
    }
    for (const char* part : {"q", "k", "v", "out"}) linear(prefix + "attn.linear_" + part, kWidth, kWidth);
    matrix(prefix + "attn.linear_pos.weight", kWidth, kWidth);
    tensor(prefix + "attn.pos_bias_u", {kWidth / kHeads, kHeads}, 0.3f);
    tensor(prefix + "attn.pos_bias_v", {kWidth / kHeads, kHeads}, 0.3f);
    const std::string conv = prefix + "conv.";
    const ggml_type pointwise = size_.type == GGML_TYPE_F32 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    tensor(conv + "pointwise1.weight", {1, kWidth, 2 * kWidth}, 0.12f, 0, pointwise);
    tensor(conv + "depthwise.weight", {kKernel, 1, kWidth}, 0.3f);
    tensor(conv + "pointwise2.weight", {1, kWidth, kWidth}, 0.12f, 0, pointwise);
    if (size_.biases) {
        vector(conv + "pointwise1.bias", 2 * kWidth);
        vector(conv + "depthwise.bias", kWidth);
        vector(conv + "pointwise2.bias", kWidth);
    }
    norm(conv + "bn");
    if (size_.layer_norm) return;
    vector(conv + "bn.running_mean", kWidth);
    tensor(conv + "bn.running_var", {kWidth}, 0.5f, 1);
}

void Writer::head() {
    if (size_.head == "ctc") {
        tensor("head.ctc.weight", {1, kWidth, kTokens + 1}, 0.3f);
        vector("head.ctc.bias", kTokens + 1);
        return;
    }
    tensor("pred.embed.weight", {kHidden, kTokens + 1}, 1.0f);
    tensor("pred.lstm.0.Wx", {kHidden, 4 * kHidden}, 0.5f);
    tensor("pred.lstm.0.Wh", {kHidden, 4 * kHidden}, 0.5f);
    vector("pred.lstm.0.bias", 4 * kHidden);
    tensor("joint.enc.weight", {kWidth, kJoint}, 0.3f);
    vector("joint.enc.bias", kJoint);
    tensor("joint.pred.weight", {kHidden, kJoint}, 0.5f);
    vector("joint.pred.bias", kJoint);
    const int outputs = kTokens + 1 + (size_.head == "tdt" ? kDurations : 0);
    tensor("joint.out.weight", {kJoint, outputs}, 0.6f);
    tensor("joint.out.bias", {outputs}, 0.5f);
}

}  // namespace

std::string write_random_parakeet(const ParakeetSize& size) {
    Writer writer(size);
    writer.header();
    writer.front_end();
    writer.subsampling();
    for (int i = 0; i < kBlocks; ++i) writer.block("enc.blocks." + std::to_string(i) + ".");
    writer.head();
    return writer.write();
}

std::shared_ptr<const parakeet::Model> random_parakeet(const ParakeetSize& size) {
    const std::string path = write_random_parakeet(size);
    GgufFile file(path);
    auto model = std::make_shared<const parakeet::Model>(file);
    std::remove(path.c_str());
    return model;
}

}  // namespace stenod::tests
