#include "whisper/model.h"

#include <algorithm>

#include "errors.h"
#include "graph/matmul.h"
#include "whisper/stream.h"
#include "whisper/worker.h"

namespace stenod::whisper {

namespace {

int checked_size(const GgufFile& file, const std::string& key, uint32_t least, uint32_t most) {
    const uint32_t value = file.u32(key);
    if (value < least || value > most) {
        file.fail(key + " is " + std::to_string(value) + ", expected " + std::to_string(least) + " to " +
                  std::to_string(most));
    }
    return static_cast<int>(value);
}

StackSize read_stack(const GgufFile& file, const std::string& name) {
    const std::string prefix = "whisper." + name + ".";
    StackSize size;
    size.context = checked_size(file, prefix + "context_length", 8, 1 << 16);
    size.width = checked_size(file, prefix + "embedding_length", 32, 1 << 14);
    size.blocks = checked_size(file, prefix + "block_count", 1, 256);
    size.heads = checked_size(file, prefix + "head_count", 1, 256);
    size.feed_forward = checked_size(file, prefix + "feed_forward_length", 32, 1 << 16);
    if (size.width % size.heads != 0 || size.head_width() % 16 != 0 || size.width % 32 != 0) {
        file.fail(prefix + "embedding_length " + std::to_string(size.width) + " does not divide into " +
                  std::to_string(size.heads) + " heads of a multiple of 16");
    }
    return size;
}

std::vector<float> read_floats(GgufFile& file, const std::string& name, std::vector<int64_t> shape) {
    const TensorInfo& info = file.tensor(name);
    size_t count = 1;
    bool same = info.type == GGML_TYPE_F32 && info.n_dims <= static_cast<int>(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
        same = same && info.shape[i] == shape[i];
        count *= static_cast<size_t>(shape[i]);
    }
    if (!same) file.fail("tensor " + name + " has an unexpected shape or type");
    std::vector<float> values(count);
    file.read_tensor(name, values.data(), count * sizeof(float));
    return values;
}

MelParameters read_mel(GgufFile& file) {
    MelParameters parameters;
    parameters.n_fft = 400;
    parameters.hop = Model::kHop;
    parameters.mel_bands = checked_size(file, "whisper.mel_bands", 1, 1024);
    parameters.filters = read_floats(file, "mel.filters", {static_cast<int64_t>(parameters.n_fft / 2 + 1), static_cast<int64_t>(parameters.mel_bands)});
    return parameters;
}

}  // namespace

/// Declares the model's tensors in ggml, each checked against the file's directory, then reads them.
class WeightReader {
public:
    WeightReader(GgufFile& file, ggml_context* context, ggml_type matrix_type)
        : file_(file), context_(context), matrix_type_(matrix_type) {}

    /// With rows of zeros up to a multiple of kRowTile.
    ggml_tensor* padded_matrix(const std::string& name, int64_t in, int64_t out) {
        return declare(name, matrix_type_, {in, out}, {in, (out + kRowTile - 1) / kRowTile * kRowTile}, true);
    }
    ggml_tensor* vector(const std::string& name, int64_t n) { return declare(name, GGML_TYPE_F32, {n}, {n}); }
    ggml_tensor* plain(const std::string& name, ggml_type type, std::vector<int64_t> shape) {
        return declare(name, type, shape, shape);
    }
    /// A convolution kernel [kernel, in, out] as the matrix [kernel * in, out].
    Linear convolution(const std::string& name, int64_t kernel, int64_t in, int64_t out) {
        const ggml_type type = matrix_type_ == GGML_TYPE_F32 ? GGML_TYPE_F32 : GGML_TYPE_F16;
        return {declare(name + ".weight", type, {kernel, in, out}, {kernel, in, out}), vector(name + ".bias", out)};
    }
    Norm norm(const std::string& name, int64_t n) { return {vector(name + ".weight", n), vector(name + ".bias", n)}; }
    Linear linear(const std::string& name, int64_t in, int64_t out, bool bias = true) {
        return {declare(name + ".weight", matrix_type_, {in, out}, {in, out}, true),
                bias ? vector(name + ".bias", out) : nullptr};
    }
    Attention attention(const std::string& name, int64_t width) {
        return {norm(name + "_ln", width), linear(name + ".query", width, width),
                linear(name + ".key", width, width, false), linear(name + ".value", width, width),
                linear(name + ".out", width, width)};
    }
    Block block(const std::string& name, const StackSize& size, bool encoder) {
        Block block;
        block.self = attention(name + ".attn", size.width);
        if (!encoder) block.cross = attention(name + ".cross_attn", size.width);
        block.mlp_norm = norm(name + ".mlp_ln", size.width);
        block.up = linear(name + ".mlp.0", size.width, size.feed_forward);
        block.down = linear(name + ".mlp.2", size.feed_forward, size.width);
        return block;
    }

    /// Reads all that was declared, once it has memory. Returns the number of parameters.
    size_t read_all() {
        size_t parameters = 0;
        std::vector<char> rows;
        for (const auto& [name, tensor, packed] : declared_) {
            const TensorInfo& info = file_.tensor(name);
            if (packed) {
                rows.assign(ggml_nbytes(tensor), 0);
                file_.read_tensor(name, rows.data(), info.bytes);
                pack(tensor, rows.data());
            } else {
                file_.read_tensor(name, tensor->data, info.bytes);
            }
            parameters += static_cast<size_t>(info.shape[0] * info.shape[1] * info.shape[2] * info.shape[3]);
        }
        return parameters;
    }

private:
    ggml_tensor* declare(const std::string& name, ggml_type type, const std::vector<int64_t>& in_file,
                         const std::vector<int64_t>& in_memory, bool packed = false) {
        const TensorInfo& info = file_.tensor(name);
        bool same = info.type == type;
        for (size_t i = 0; i < 4; ++i) same = same && info.shape[i] == (i < in_file.size() ? in_file[i] : 1);
        if (!same) file_.fail("tensor " + name + " has an unexpected shape or type");
        ggml_tensor* tensor =
            ggml_new_tensor(context_, type, static_cast<int>(in_memory.size()), in_memory.data());
        declared_.push_back({name, tensor, packed});
        return tensor;
    }

    struct Declared {
        std::string name;
        ggml_tensor* tensor;
        bool packed;
    };

    GgufFile& file_;
    ggml_context* context_;
    ggml_type matrix_type_;
    std::vector<Declared> declared_;
};

Model::Model(GgufFile& file)
    : tokenizer(file.string_array("tokenizer.ggml.tokens"), static_cast<TokenId>(file.u32("whisper.token.eot"))),
      mel(read_mel(file)) {
    name = file.string("general.name", "whisper");
    read_sizes(file);
    read_vocabulary(file);
    read_weights(file);
}

std::vector<std::string> Model::language_codes() const {
    return multilingual() ? languages : std::vector<std::string>{"en"};
}

std::map<std::string, std::variant<std::string, int64_t>> Model::info() const {
    return {{"type", ggml_type_name(weight_type)}, {"vocabulary", vocabulary},
            {"encoder_blocks", encoder.blocks},    {"decoder_blocks", decoder.blocks},
            {"width", encoder.width},              {"languages", static_cast<int64_t>(languages.size())}};
}

std::vector<int> Model::tokenize(const std::string& text) const { return tokenizer.encode(text); }

std::vector<float> Model::log_mel(const Clip& clip, int frames) const {
    if (frames == 0) frames = 2 * encoder.context;
    std::vector<float> out(static_cast<size_t>(frames) * static_cast<size_t>(mel_bands));
    LogMelStream stream(mel);
    stream.push(clip.samples, clip.count);
    stream.window(0, static_cast<size_t>(frames), out.data());
    return out;
}

std::unique_ptr<stenod::Stream> Model::make_stream(const StreamOptions& options) const {
    return std::make_unique<Stream>(*this, options);
}

std::unique_ptr<stenod::Worker> Model::make_worker(int threads) const {
    return std::make_unique<Worker>(std::static_pointer_cast<const Model>(shared_from_this()), threads);
}

int Model::language_token(const std::string& code) const {
    const auto found = std::find(languages.begin(), languages.end(), code);
    if (found == languages.end()) {
        throw BadArgument(multilingual() ? "language: '" + code + "' is not one of the model's " +
                                               std::to_string(languages.size()) + " languages"
                                         : "language: '" + code + "', but the model knows English only");
    }
    return token.language(static_cast<int>(found - languages.begin()));
}

int Model::chosen_language(const std::string& code) const {
    return code.empty() || (code == "en" && !multilingual()) ? -1 : language_token(code);
}

void Model::read_sizes(const GgufFile& file) {
    encoder = read_stack(file, "encoder");
    decoder = read_stack(file, "decoder");
    mel_bands = checked_size(file, "whisper.mel_bands", 1, 1024);
    vocabulary = checked_size(file, "whisper.vocab_size", 1000, 1 << 20);
    if (encoder.width != decoder.width) file.fail("encoder and decoder have different widths");
    if (encoder.context != kWindowSeconds * 50) file.fail("the encoder's window is not 30 s");
    weight_type = file.tensor("decoder.token_embedding.weight").type;
    const ggml_type known[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_Q8_0, GGML_TYPE_Q5_0,
                               GGML_TYPE_Q5_1, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1};
    if (std::find(std::begin(known), std::end(known), weight_type) == std::end(known)) {
        file.fail(std::string("weights of type ") + ggml_type_name(weight_type) +
                  " are not supported: convert to f32, f16, q8_0, q5_0 or q4_0");
    }
}

void Model::read_vocabulary(const GgufFile& file) {
    if (tokenizer.size() != static_cast<size_t>(vocabulary)) {
        file.fail("tokenizer.ggml.tokens has " + std::to_string(tokenizer.size()) + " entries, expected " +
                  std::to_string(vocabulary));
    }
    const auto special = [&](const char* key) {
        return checked_size(file, std::string("whisper.token.") + key, 1, static_cast<uint32_t>(vocabulary - 1));
    };
    token = {special("eot"),     special("sot"),      special("translate"), special("transcribe"),
             special("sot_lm"),  special("sot_prev"), special("no_speech"), special("no_timestamps"),
             special("timestamp_begin")};
    // A GGUF array cannot be empty: its key is left out.
    if (file.has("whisper.languages")) languages = file.string_array("whisper.languages");
    if (token.language(static_cast<int>(languages.size())) > vocabulary) {
        file.fail("whisper.languages has more entries than the vocabulary has tokens for");
    }
    // Timestamps run from 0.00 to 30.00 s in steps of 20 ms, at the vocabulary's end.
    if (token.timestamp_begin + encoder.context + 1 > vocabulary || token.timestamp_begin <= token.eot) {
        file.fail("whisper.token.timestamp_begin leaves no room for the timestamps");
    }
    const auto checked_ids = [&](const char* key) {
        if (!file.has(key)) return std::vector<int>();
        std::vector<int> ids(file.i32_array(key).begin(), file.i32_array(key).end());
        for (int id : ids) {
            if (id < 0 || id >= vocabulary) file.fail(std::string(key) + " holds " + std::to_string(id));
        }
        return ids;
    };
    suppress_tokens = checked_ids("whisper.suppress_tokens");
    begin_suppress_tokens = checked_ids("whisper.begin_suppress_tokens");
    const std::vector<int32_t>& heads = file.i32_array("whisper.alignment_heads");
    if (heads.empty() || heads.size() % 2 != 0) file.fail("whisper.alignment_heads is not a list of pairs");
    for (size_t i = 0; i < heads.size(); i += 2) {
        if (heads[i] < 0 || heads[i] >= decoder.blocks || heads[i + 1] < 0 || heads[i + 1] >= decoder.heads) {
            file.fail("whisper.alignment_heads names a head that the decoder does not have");
        }
        alignment_heads.emplace_back(heads[i], heads[i + 1]);
    }
    std::sort(alignment_heads.begin(), alignment_heads.end());
}

void Model::read_weights(GgufFile& file) {
    context_ = make_context(file.tensors().size() + 1);
    WeightReader weights(file, context_.get(), weight_type);
    const int64_t width = encoder.width;
    conv1 = weights.convolution("encoder.conv1", 3, mel_bands, width);
    conv2 = weights.convolution("encoder.conv2", 3, width, width);
    encoder_positions = weights.plain("encoder.positional_embedding", GGML_TYPE_F32, {width, encoder.context});
    for (int i = 0; i < encoder.blocks; ++i) {
        encoder_blocks.push_back(weights.block("encoder.blocks." + std::to_string(i), encoder, true));
    }
    encoder_norm = weights.norm("encoder.ln_post", width);
    token_embedding = weights.padded_matrix("decoder.token_embedding.weight", width, vocabulary);
    decoder_positions = weights.plain("decoder.positional_embedding", GGML_TYPE_F32, {width, decoder.context});
    for (int i = 0; i < decoder.blocks; ++i) {
        decoder_blocks.push_back(weights.block("decoder.blocks." + std::to_string(i), decoder, false));
    }
    decoder_norm = weights.norm("decoder.ln", width);

    buffer_ = allocate_tensors(context_.get());
    weight_bytes = ggml_backend_buffer_get_size(buffer_.get());
    parameters = weights.read_all();
}

}  // namespace stenod::whisper
