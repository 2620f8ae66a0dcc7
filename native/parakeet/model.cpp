#include "parakeet/model.h"

#include <algorithm>
#include <cmath>

#include "model/weight_reader.h"
#include "parakeet/input.h"
#include "parakeet/part_reader.h"
#include "parakeet/stream.h"
#include "parakeet/worker.h"

namespace stenod::parakeet {

namespace {

[[noreturn]] void refuse(const GgufFile& file, const std::string& key, const std::string& value,
                         const std::string& expected) {
    file.fail(key + " is " + value + ", expected " + expected);
}

int checked_size(const GgufFile& file, const std::string& key, uint32_t least, uint32_t most) {
    const uint32_t value = file.u32(key);
    if (value < least || value > most) {
        refuse(file, key, std::to_string(value), std::to_string(least) + " to " + std::to_string(most));
    }
    return static_cast<int>(value);
}

void expect(const GgufFile& file, const std::string& key, uint32_t value) {
    if (file.u32(key) != value) refuse(file, key, std::to_string(file.u32(key)), std::to_string(value));
}

void expect(const GgufFile& file, const std::string& key, const std::string& value) {
    const std::string found = file.string(key, value);
    if (found != value) refuse(file, key, "'" + found + "'", "'" + value + "'");
}

bool normalises_mel(const GgufFile& file) {
    const std::string key = "stt.frontend.normalize", method = file.string(key);
    if (method == "per_feature") return true;
    if (method == "none" || method == "NA") return false;
    refuse(file, key, "'" + method + "'", "'per_feature' or 'none'");
}

MelParameters read_mel(GgufFile& file) {
    expect(file, "stt.frontend.type", "mel");
    expect(file, "stt.frontend.window", "hann");
    expect(file, "stt.frontend.sample_rate", Model::kSampleRate);
    expect(file, "stt.frontend.hop_length", Model::kHop);
    MelParameters parameters;
    parameters.convention = MelParameters::Convention::nemo;
    parameters.n_fft = static_cast<size_t>(checked_size(file, "stt.frontend.n_fft", 32, 4096));
    parameters.window = static_cast<size_t>(checked_size(file, "stt.frontend.win_length", Model::kHop, 4096));
    parameters.hop = Model::kHop;
    parameters.pre_emphasis = file.f32("stt.frontend.pre_emphasis", 0.97f);
    if (!(std::abs(parameters.pre_emphasis) <= 1)) file.fail("stt.frontend.pre_emphasis is not from -1 to 1");
    parameters.mel_bands = static_cast<size_t>(checked_size(file, "stt.frontend.num_mels", 8, 512));
    if (parameters.n_fft % 2 != 0 || parameters.window > parameters.n_fft || parameters.window % 2 != 0) {
        file.fail("stt.frontend.win_length and n_fft must be even, and the window no longer than the transform");
    }
    if (!file.find_tensor("fb")) {
        file.fail("tensor fb, the mel filterbank, is missing: convert the file with `stenod models convert`");
    }
    const auto bins = static_cast<int64_t>(parameters.n_fft / 2 + 1), bands = static_cast<int64_t>(parameters.mel_bands);
    parameters.filters = WeightReader(file, nullptr).floats("fb", {bins, bands})();
    return parameters;
}

SentencePieces read_pieces(const GgufFile& file) {
    const std::vector<std::string>& pieces = file.string_array("tokenizer.ggml.tokens");
    if (pieces.size() < 2 || pieces.size() > 1 << 20) file.fail("tokenizer.ggml.tokens has an impossible length");
    expect(file, "tokenizer.ggml.blank_token_id", static_cast<uint32_t>(pieces.size() - 1));
    const std::string scores = "tokenizer.ggml.scores";
    return SentencePieces(pieces, file.has(scores) ? file.f32_array(scores) : std::vector<float>(),
                          static_cast<int>(pieces.size() - 1));
}

}  // namespace

Model::Model(GgufFile& file)
    : pieces(read_pieces(file)),
      mel(read_mel(file)),
      normalise_mel(normalises_mel(file)) {
    name = file.string("general.name", file.string("stt.variant", "parakeet"));
    if (file.has("general.languages")) languages = file.string_array("general.languages");
    read_sizes(file);
    read_contexts(file);
    read_head_sizes(file);
    read_weights(file);
}

bool Model::tells_end_of_turn() const {
    for (int id = 0; id < head.tokens; ++id) {
        if (pieces.is_end_of_utterance(id)) return true;
    }
    return false;
}

std::map<std::string, std::variant<std::string, int64_t>> Model::info() const {
    const std::string kind = head.is_ctc() ? "ctc" : head.durations.empty() ? "rnnt" : "tdt";
    return {{"type", ggml_type_name(weight_type)},
            {"vocabulary", static_cast<int64_t>(pieces.size())},
            {"encoder_blocks", encoder.blocks},
            {"width", encoder.width},
            {"head", kind},
            {"cache_aware", static_cast<int64_t>(cache_aware)}};
}

std::vector<float> Model::log_mel(const Clip& clip, int frames) const {
    const std::vector<float> rows = features(*this, clip);
    const size_t bands = mel.mel_bands(), heard = rows.size() / bands;
    const size_t count = frames > 0 ? static_cast<size_t>(frames) : heard;
    std::vector<float> out(count * bands);
    for (size_t i = 0; i < std::min(count, heard); ++i) {
        for (size_t band = 0; band < bands; ++band) out[band * count + i] = rows[i * bands + band];
    }
    return out;
}

std::unique_ptr<stenod::Stream> Model::make_stream(const StreamOptions& options) const {
    return std::make_unique<Stream>(*this, options);
}

std::unique_ptr<stenod::Worker> Model::make_worker(int threads) const {
    return std::make_unique<Worker>(std::static_pointer_cast<const Model>(shared_from_this()), threads);
}

void Model::read_sizes(GgufFile& file) {
    const std::string prefix = "stt.parakeet.encoder.";
    encoder.width = checked_size(file, prefix + "d_model", 32, 1 << 13);
    encoder.blocks = checked_size(file, prefix + "n_layers", 1, 256);
    encoder.heads = checked_size(file, prefix + "n_heads", 1, 256);
    encoder.feed_forward = checked_size(file, prefix + "d_ff", 32, 1 << 15);
    encoder.kernel = checked_size(file, prefix + "conv_kernel", 1, 255);
    encoder.channels = checked_size(file, prefix + "subsampling_channels", 8, 1 << 12);
    encoder.bands = mel_bands = static_cast<int>(mel.mel_bands());
    expect(file, prefix + "subsampling_factor", kSubsampling);
    if (encoder.width % encoder.heads != 0 || encoder.head_width() % 8 != 0 || encoder.width % 32 != 0) {
        file.fail(prefix + "d_model " + std::to_string(encoder.width) + " does not divide into " +
                  std::to_string(encoder.heads) + " heads of a multiple of 8");
    }
    if (encoder.kernel % 2 == 0) file.fail(prefix + "conv_kernel is even");
    if (encoder.channels % 8 != 0) file.fail(prefix + "subsampling_channels is not a multiple of 8");
    if (file.boolean(prefix + "xscaling", false)) input_scale = std::sqrt(static_cast<float>(encoder.width));
    for (const char* part : {"prompt.mlp.0.weight", "enc.spk_kernel.0.0.weight", "enc.bg_spk_kernel.0.0.weight"}) {
        if (file.find_tensor(part)) {
            file.fail(std::string("has ") + part + ": models with a language prompt or speaker kernels are not supported");
        }
    }
}

void Model::read_contexts(const GgufFile& file) {
    const std::string prefix = "stt.parakeet.encoder.", style_key = prefix + "att_context_style";
    const std::string style = file.string(style_key, "regular");
    cache_aware = style == "chunked_limited";
    if (cache_aware && normalise_mel) file.fail(style_key + " is '" + style + "', and the mel is normalised over all of it");
    if (!cache_aware && style != "regular") refuse(file, style_key, "'" + style + "'", "'regular' or 'chunked_limited'");

    const AttentionContext chosen{file.i32(prefix + "att_context_left", AttentionContext::kUnlimited),
                                  file.i32(prefix + "att_context_right", AttentionContext::kUnlimited)};
    contexts.push_back(chosen);
    if (cache_aware && file.has(prefix + "att_context_size_choices")) {
        const std::vector<int32_t>& pairs = file.i32_array(prefix + "att_context_size_choices");
        if (pairs.size() % 2 != 0) file.fail(prefix + "att_context_size_choices is not a list of pairs");
        for (size_t i = 0; i < pairs.size(); i += 2) {
            if (pairs[i] != chosen.left || pairs[i + 1] != chosen.right) contexts.push_back({pairs[i], pairs[i + 1]});
        }
    }
    for (const AttentionContext& context : contexts) {
        const int least = cache_aware ? 0 : AttentionContext::kUnlimited;
        if (context.left < least || context.right < least || context.left > 10000 || context.right > 1000) {
            file.fail(prefix + "att_context_* has " + std::to_string(context.left) + " and " +
                      std::to_string(context.right) + " frames, which the model's style cannot have");
        }
    }
    const int past = cache_aware ? encoder.kernel - 1 : encoder.kernel / 2;
    if (file.i32(prefix + "conv_context_left", past) != past ||
        file.i32(prefix + "conv_context_right", encoder.kernel - 1 - past) != encoder.kernel - 1 - past) {
        file.fail(prefix + "conv_context_* does not go with the attention's style");
    }
    encoder.reduced_bands = encoder.bands;
    for (int stage = 0; stage < Subsampling::kStages; ++stage) {
        encoder.reduced_bands = static_cast<int>(Subsampling::reduced(encoder.reduced_bands, cache_aware));
    }
}

void Model::read_head_sizes(const GgufFile& file) {
    const std::string kind = file.string("stt.parakeet.head_kind");
    head.encoder_width = encoder.width;
    head.tokens = static_cast<int>(pieces.size()) - 1;
    if (kind == "ctc") return;
    if (kind != "tdt" && kind != "rnnt") refuse(file, "stt.parakeet.head_kind", "'" + kind + "'", "tdt, rnnt or ctc");
    const std::string predictor = "stt.parakeet.predictor.", joint = "stt.parakeet.joint.";
    expect(file, predictor + "vocab", static_cast<uint32_t>(pieces.size()));
    expect(file, joint + "activation", "relu");
    head.hidden = checked_size(file, predictor + "hidden", 16, 1 << 13);
    head.lstm.resize(static_cast<size_t>(checked_size(file, predictor + "n_layers", 1, 8)));
    head.joint_width = checked_size(file, joint + "hidden", 16, 1 << 13);
    if (head.hidden % 16 != 0 || head.joint_width % 16 != 0) {
        file.fail("the predictor's and the joint's width must be multiples of 16");
    }
    if (kind == "tdt") {
        const std::vector<int32_t>& durations = file.i32_array("stt.parakeet.tdt.durations");
        const bool ascending = std::adjacent_find(durations.begin(), durations.end(), std::greater_equal<>()) == durations.end();
        if (durations.empty() || durations.size() > 64 || durations.front() != 0 || durations.back() > 100 || !ascending) {
            file.fail("stt.parakeet.tdt.durations is not a list that ascends from 0");
        }
        head.durations.assign(durations.begin(), durations.end());
    }
    const std::string cap = "stt.parakeet.tdt.max_symbols";
    if (file.has(cap)) head.max_symbols = checked_size(file, cap, 1, 1000);
    expect(file, joint + "num_extra_outputs", static_cast<uint32_t>(head.durations.size()));
}

void Model::read_weights(GgufFile& file) {
    const std::string norm = file.string("stt.parakeet.encoder.conv_norm_type", "batch_norm");
    if (norm != "batch_norm" && norm != "layer_norm") {
        refuse(file, "stt.parakeet.encoder.conv_norm_type", "'" + norm + "'", "batch_norm or layer_norm");
    }
    // A model without biases has zeros for them, of which the file knows nothing.
    context_ = make_context(2 * file.tensors().size() + static_cast<size_t>(16 * encoder.blocks));
    PartReader parts(file, context_.get(), encoder, file.boolean("stt.parakeet.encoder.use_bias", true),
                     norm == "layer_norm");
    subsampling = parts.subsampling();
    for (int i = 0; i < encoder.blocks; ++i) blocks.push_back(parts.block("enc.blocks." + std::to_string(i) + "."));
    if (head.lstm.empty()) {
        parts.read_ctc(head);
    } else {
        parts.read_transducer(head);  // what a hybrid model has for CTC stays in the file
    }

    buffer_ = allocate_tensors(context_.get());
    weight_type = blocks.front().first.up.weight->type;
    weight_bytes = ggml_backend_buffer_get_size(buffer_.get());
    parameters = parts.parameters();
    parts.fill();
}

}  // namespace stenod::parakeet
