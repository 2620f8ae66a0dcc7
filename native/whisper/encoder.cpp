#include "whisper/encoder.h"

#include <algorithm>
#include <string>

#include "errors.h"
#include "graph/attention.h"
#include "graph/ops.h"
#include "whisper/layers.h"

namespace stenod::whisper {

CrossCache::CrossCache(const Model& model) : context_(make_context(2 * model.decoder.blocks)) {
    for (int i = 0; i < model.decoder.blocks; ++i) {
        for (auto* list : {&keys, &values}) {
            list->push_back(ggml_new_tensor_2d(context_.get(), model.cache_type(), model.decoder.width,
                                               model.encoder.context));
        }
    }
    buffer_ = allocate_tensors(context_.get());
}

/// The graph of one window length, and the tensors through which it is fed and read.
struct Encoder::Shape {
    explicit Shape(size_t max_nodes) : graph(max_nodes) {}

    Graph graph;
    ggml_tensor* mel = nullptr;
    ggml_tensor* encoded = nullptr;
    std::vector<ggml_tensor*> keys, values;  ///< written into the caller's CrossCache
};

Encoder::Encoder(const Model& model, Executor& executor) : model_(model), executor_(executor) {}
Encoder::~Encoder() = default;

int Encoder::bucket(const Model& model, int positions) {
    const int rounded = (std::max(positions, kShortest) + kBucket - 1) / kBucket * kBucket;
    return std::min(rounded, model.encoder.context);
}

namespace {

/// Two convolutions over time with GELU: [2 * positions, mel_bands] to [width, positions].
ggml_tensor* convolutions(ggml_context* context, const Model& model, ggml_tensor* mel) {
    const auto columns = [&](const Linear& layer, ggml_tensor* input, int stride) {
        return ggml_im2col(context, layer.weight, input, stride, 0, 1, 0, 1, 0, false, layer.weight->type);
    };
    const auto as_matrix = [&](const Linear& layer) {
        return ggml_reshape_2d(context, layer.weight, layer.weight->ne[0] * layer.weight->ne[1],
                               layer.weight->ne[2]);
    };
    // The first comes out with time first, as the second one's columns want it; its bias is added channel by channel.
    ggml_tensor* x = ggml_mul_mat(context, columns(model.conv1, mel, 1), as_matrix(model.conv1));
    x = ggml_add(context, x, ggml_reshape_2d(context, model.conv1.bias, 1, model.conv1.bias->ne[0]));
    x = gelu(context, x);
    x = ggml_mul_mat(context, as_matrix(model.conv2), columns(model.conv2, x, 2));
    return bias_gelu(context, x, model.conv2.bias);
}

ggml_tensor* self_attention(ggml_context* context, const Attention& attention, int heads, ggml_tensor* x) {
    ggml_tensor* input = normalise(context, attention.norm, x);
    ggml_tensor* query = apply(context, attention.query, input);
    ggml_tensor* key = apply(context, attention.key, input);
    ggml_tensor* value = apply(context, attention.value, input);
    ggml_tensor* attended = attend_to_all(context, query, key, value, heads);
    return apply_residual(context, attention.out, attended, x);
}

}  // namespace

std::unique_ptr<Encoder::Shape> Encoder::build(int positions) const {
    const StackSize& size = model_.encoder;
    auto shape = std::make_unique<Shape>(64 + 32 * size.blocks + 8 * model_.decoder.blocks);
    ggml_context* context = shape->graph.context();
    shape->mel = shape->graph.input(GGML_TYPE_F32, 2 * positions, model_.mel_bands);

    ggml_tensor* x = convolutions(context, model_, shape->mel);
    x = ggml_add(context, x, ggml_view_2d(context, model_.encoder_positions, size.width, positions,
                                          model_.encoder_positions->nb[1], 0));
    for (const Block& block : model_.encoder_blocks) {
        x = self_attention(context, block.self, size.heads, x);
        x = feed_forward(context, block, x);
    }
    shape->encoded = normalise(context, model_.encoder_norm, x);
    shape->graph.output(shape->encoded);

    for (const Block& block : model_.decoder_blocks) {
        const auto store = [&](const Linear& layer, std::vector<ggml_tensor*>& results) {
            ggml_tensor* cache = shape->graph.external(model_.cache_type(), size.width, positions);
            ggml_tensor* stored = ggml_cpy(context, apply(context, layer, shape->encoded), cache);
            shape->graph.writes_external(stored);
            results.push_back(stored);
        };
        store(block.cross.key, shape->keys);
        store(block.cross.value, shape->values);
    }
    return shape;
}

Encoder::Shape& Encoder::shape(int positions) {
    auto& slot = shapes_[positions];
    if (!slot) slot = build(positions);
    return *slot;
}

void Encoder::encode(const float* mel, int positions, CrossCache& cross) {
    if (positions < 1 || positions > model_.encoder.context) {
        throw BadArgument("mel: " + std::to_string(2 * positions) + " frames, expected 2 to " +
                          std::to_string(2 * model_.encoder.context));
    }
    Shape& shape = this->shape(positions);
    executor_.prepare(shape.graph);
    ggml_backend_tensor_set(shape.mel, mel, 0, ggml_nbytes(shape.mel));
    for (int i = 0; i < model_.decoder.blocks; ++i) {
        bind(shape.keys[i], cross.buffer(), cross.keys[i]->data);
        bind(shape.values[i], cross.buffer(), cross.values[i]->data);
    }
    cross.positions = 0;
    const double before = executor_.seconds();
    executor_.compute(shape.graph);
    seconds_ += executor_.seconds() - before;
    cross.positions = positions;
}

void Encoder::encode_window(const LogMelStream& mel, size_t start, int positions, CrossCache& cross) {
    std::vector<float> window(static_cast<size_t>(2 * positions) * model_.mel_bands);
    mel.window(start, 2 * positions, window.data());
    encode(window.data(), positions, cross);
}

std::vector<float> Encoder::encode_output(const float* mel, int positions, CrossCache& cross) {
    encode(mel, positions, cross);
    const Shape& shape = this->shape(positions);
    std::vector<float> output(static_cast<size_t>(positions) * model_.encoder.width);
    ggml_backend_tensor_get(shape.encoded, output.data(), 0, output.size() * sizeof(float));
    return output;
}

}  // namespace stenod::whisper
