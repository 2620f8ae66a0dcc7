#include "random_model.h"

#include <unistd.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "engine.h"
#include "gguf.h"

namespace stenod::tests {

namespace {

constexpr int kWidth = 64, kHeads = 4, kBlocks = 2, kFeedForward = 128, kMelBands = 80;
constexpr int kBytes = 256, kTimestamps = 1501;
constexpr const char* kSpecial[] = {"eot",     "sot",      "",          "",             "translate", "transcribe",
                                    "sot_lm",  "sot_prev", "no_speech", "no_timestamps"};
constexpr int kSpecials = sizeof kSpecial / sizeof *kSpecial;
constexpr int kVocabulary = kBytes + kSpecials + kTimestamps;

/// GPT-2's spelling of one byte.
std::string spell(int byte) {
    const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
    int code = byte;
    if (!printable(byte)) {
        code = 256;
        for (int b = 0; b < byte; ++b) code += !printable(b);
    }
    if (code < 0x80) return {static_cast<char>(code)};
    return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

class Writer {
public:
    Writer(std::string misshapen, int extra) : misshapen_(std::move(misshapen)), extra_(extra) {
        ggml_init_params params{64u << 20, nullptr, false};
        context_.reset(ggml_init(params));
    }

    void numbers(const std::string& stack, int context) {
        const std::string prefix = "whisper." + stack + ".";
        number(prefix + "context_length", context);
        number(prefix + "embedding_length", kWidth);
        number(prefix + "block_count", kBlocks);
        number(prefix + "head_count", kHeads);
        number(prefix + "feed_forward_length", kFeedForward);
    }
    void number(const std::string& key, int value) {
        gguf_set_val_u32(file_.get(), key.c_str(), static_cast<uint32_t>(value));
    }
    void tensor(const std::string& name, ggml_type type, std::vector<int64_t> shape, float scale, float mean = 0) {
        if (name == misshapen_) shape[0] += extra_;
        ggml_tensor* tensor = ggml_new_tensor(context_.get(), type, static_cast<int>(shape.size()), shape.data());
        ggml_set_name(tensor, name.c_str());
        std::normal_distribution<float> normal(mean, scale);
        for (int64_t i = 0; i < ggml_nelements(tensor); ++i) {
            const float value = normal(random_);
            if (type == GGML_TYPE_F32) {
                static_cast<float*>(tensor->data)[i] = value;
            } else {
                static_cast<ggml_fp16_t*>(tensor->data)[i] = ggml_fp32_to_fp16(value);
            }
        }
        gguf_add_tensor(file_.get(), tensor);
    }
    void vector(const std::string& name, int64_t n, float mean = 0) { tensor(name, GGML_TYPE_F32, {n}, 0.02f, mean); }
    void matrix(const std::string& name, int64_t in, int64_t out) { tensor(name, GGML_TYPE_F16, {in, out}, 0.15f); }
    void norm(const std::string& name) {
        vector(name + ".weight", kWidth, 1);
        vector(name + ".bias", kWidth);
    }
    void attention(const std::string& name) {
        norm(name + "_ln");
        for (const char* part : {".query", ".key", ".value", ".out"}) {
            matrix(name + part + ".weight", kWidth, kWidth);
            if (std::string(part) != ".key") vector(name + part + ".bias", kWidth);
        }
    }
    void stack(const std::string& name, bool cross) {
        for (int i = 0; i < kBlocks; ++i) {
            const std::string block = name + ".blocks." + std::to_string(i);
            attention(block + ".attn");
            if (cross) attention(block + ".cross_attn");
            norm(block + ".mlp_ln");
            matrix(block + ".mlp.0.weight", kWidth, kFeedForward);
            vector(block + ".mlp.0.bias", kFeedForward);
            matrix(block + ".mlp.2.weight", kFeedForward, kWidth);
            vector(block + ".mlp.2.bias", kWidth);
        }
    }
    void vocabulary() {
        std::vector<std::string> tokens;
        for (int byte = 0; byte < kBytes; ++byte) tokens.push_back(spell(byte));
        for (int i = kBytes; i < kVocabulary; ++i) tokens.push_back("<|" + std::to_string(i) + "|>");
        std::vector<const char*> pointers;
        for (const std::string& token : tokens) pointers.push_back(token.c_str());
        gguf_set_arr_str(file_.get(), "tokenizer.ggml.tokens", pointers.data(), pointers.size());
        const char* languages[] = {"en", "de"};
        gguf_set_arr_str(file_.get(), "whisper.languages", languages, 2);
        for (int i = 0; i < kSpecials; ++i) {
            if (*kSpecial[i]) number(std::string("whisper.token.") + kSpecial[i], kBytes + i);
        }
        number("whisper.token.timestamp_begin", kBytes + kSpecials);
        number("whisper.vocab_size", kVocabulary);
        const int32_t heads[] = {1, 0, 1, 2};
        gguf_set_arr_data(file_.get(), "whisper.alignment_heads", GGUF_TYPE_INT32, heads, 4);
    }
    std::string write() {
        char path[] = "/tmp/stenod-test-XXXXXX";
        close(mkstemp(path));
        gguf_write_to_file(file_.get(), path, false);
        return path;
    }

    gguf_context* file() { return file_.get(); }

private:
    struct FileDeleter {
        void operator()(gguf_context* file) const { gguf_free(file); }
    };
    std::unique_ptr<gguf_context, FileDeleter> file_{gguf_init_empty()};
    ContextPtr context_;
    std::mt19937 random_{7};
    std::string misshapen_;
    int extra_;
};

}  // namespace

std::string write_random_model(const std::string& misshapen, int extra) {
    Writer writer(misshapen, extra);
    gguf_set_val_str(writer.file(), "general.architecture", "whisper");
    gguf_set_val_str(writer.file(), "general.name", "random");
    writer.numbers("encoder", 1500);
    writer.numbers("decoder", 448);
    writer.number("whisper.mel_bands", kMelBands);
    writer.vocabulary();
    writer.tensor("mel.filters", GGML_TYPE_F32, {201, kMelBands}, 0.001f, 0.002f);
    writer.tensor("encoder.conv1.weight", GGML_TYPE_F16, {3, kMelBands, kWidth}, 0.1f);
    writer.vector("encoder.conv1.bias", kWidth);
    writer.tensor("encoder.conv2.weight", GGML_TYPE_F16, {3, kWidth, kWidth}, 0.1f);
    writer.vector("encoder.conv2.bias", kWidth);
    writer.tensor("encoder.positional_embedding", GGML_TYPE_F32, {kWidth, 1500}, 0.5f);
    writer.stack("encoder", false);
    writer.norm("encoder.ln_post");
    writer.matrix("decoder.token_embedding.weight", kWidth, kVocabulary);
    writer.tensor("decoder.positional_embedding", GGML_TYPE_F32, {kWidth, 448}, 0.5f);
    writer.stack("decoder", true);
    writer.norm("decoder.ln");
    return writer.write();
}

std::shared_ptr<const whisper::Model> random_model() {
    static const std::shared_ptr<const whisper::Model> model = [] {
        const std::string path = write_random_model();
        auto loaded = std::static_pointer_cast<const whisper::Model>(load_model(path));
        std::remove(path.c_str());
        return loaded;
    }();
    return model;
}

}  // namespace stenod::tests
