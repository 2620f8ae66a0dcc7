#include "parakeet/subsampler.h"

#include <algorithm>

#include "parakeet/convolution.h"

namespace stenod::parakeet {

namespace {

constexpr int kStages = Subsampling::kStages;
constexpr int kLeastFrames = 2;   // one column would take another matrix kernel
constexpr int kPieceFrames = 32;  // of a long stretch: bounds the memory of the first convolution
constexpr int kMostFrames = 64;   // in one computation

}  // namespace

int64_t frames_at_end(const Model& model, int64_t mel_frames) {
    if (mel_frames == 0) return 0;
    for (int stage = 0; stage < kStages; ++stage) mel_frames = Subsampling::reduced(mel_frames, model.cache_aware);
    return mel_frames;
}

FrameRange mel_of_frame(const Model& model, int64_t frame) {
    const int64_t middle = Model::kSubsampling * frame;
    if (model.cache_aware) return {std::max<int64_t>(0, middle - 14), middle + 1};
    return {std::max<int64_t>(0, middle - 7), middle + 8};
}

struct Subsampler::Shape {
    explicit Shape(size_t max_nodes) : graph(max_nodes) {}

    Graph graph;
    ggml_tensor* mel = nullptr;  ///< [bands, 8 * frames + 7, pieces]
    ggml_tensor* out = nullptr;  ///< [width, frames * pieces]
    StageView stages[kStages];
};

Subsampler::Subsampler(const Model& model, Executor& executor) : model_(model), executor_(executor) {}
Subsampler::~Subsampler() = default;

void Subsampler::compute(const std::vector<Request>& requests) {
    int longest = 0;
    for (const Request& request : requests) longest = std::max(longest, request.count);
    const int frames = std::clamp(longest, kLeastFrames, kPieceFrames);
    std::vector<Request> pieces;
    for (const Request& request : requests) {
        for (int begin = 0; begin < request.count; begin += frames) {
            pieces.push_back({request.mel, request.first + begin, std::min(frames, request.count - begin),
                              request.out + static_cast<size_t>(begin) * model_.encoder.width});
        }
    }
    const size_t at_once = static_cast<size_t>(std::max(1, kMostFrames / frames));
    for (size_t i = 0; i < pieces.size(); i += at_once) {
        run({frames, static_cast<int>(std::min(at_once, pieces.size() - i))}, &pieces[i]);
    }
}

Subsampler::Shape& Subsampler::shape(const Key& key) {
    auto& slot = shapes_[key];
    if (!slot) slot = build(key);
    return *slot;
}

std::unique_ptr<Subsampler::Shape> Subsampler::build(const Key& key) const {
    const auto [frames, pieces] = key;
    const EncoderSize& size = model_.encoder;
    const Subsampling& part = model_.subsampling;
    auto shape = std::make_unique<Shape>(64);
    ggml_context* context = shape->graph.context();
    for (StageView& stage : shape->stages) stage.left = model_.cache_aware ? 2 : 1;

    shape->mel = shape->graph.input(GGML_TYPE_F32, size.bands, 8 * frames + 7, pieces);
    auto bands = static_cast<int>(Subsampling::reduced(size.bands, model_.cache_aware));
    ggml_tensor* x = convolve_mel(shape->graph, part, shape->stages[0], shape->mel, bands);
    int stage = 1;
    for (const Subsampling::Separable* separable : {&part.second, &part.third}) {
        StageView& view = shape->stages[stage++];
        bands = static_cast<int>(Subsampling::reduced(bands, model_.cache_aware));
        x = convolve_channels(shape->graph, *separable, view, x, bands);
        ggml_tensor* columns = ggml_reshape_2d(context, x, size.channels, bands * x->ne[2] * pieces);
        ggml_tensor* mixed = multiply(context, separable->pointwise.weight, columns);
        mixed = ggml_reshape_4d(context, mixed, size.channels, bands, x->ne[2], pieces);
        x = bias_relu(shape->graph, separable->pointwise.bias, view, mixed);
    }
    x = ggml_cont(context, ggml_permute(context, x, 1, 0, 2, 3));
    x = ggml_reshape_2d(context, x, size.channels * bands, frames * pieces);
    shape->out = apply(context, part.out, x);
    if (model_.input_scale != 1) shape->out = ggml_scale(context, shape->out, model_.input_scale);
    shape->graph.output(shape->out);
    return shape;
}

void Subsampler::run(const Key& key, const Request* pieces) {
    const auto [frames, count] = key;
    const auto bands = static_cast<size_t>(model_.encoder.bands), width = static_cast<size_t>(model_.encoder.width);
    Shape& shape = this->shape(key);
    executor_.prepare(shape.graph);
    const int64_t rows = shape.mel->ne[1];
    std::vector<float> mel(static_cast<size_t>(rows * count) * bands);
    for (StageView& stage : shape.stages) stage.pieces.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
        const MelFrames& source = pieces[i].mel;
        int64_t first = pieces[i].first, end = source.last ? source.end() : INT64_MAX / 4;
        int64_t lengths[kStages];
        for (int64_t& length : lengths) length = end = Subsampling::reduced(end, model_.cache_aware);
        // A frame of a stage depends on two times that frame and those around it, or, in a causal model, before it.
        const int64_t before = model_.cache_aware ? 2 : 1;
        for (int stage = kStages - 1; stage >= 0; --stage) {
            shape.stages[stage].pieces[static_cast<size_t>(i)] = {first, lengths[stage]};
            first = 2 * first - before;
        }
        const int64_t from = std::max(first, source.first), to = std::min(first + rows, source.end());
        if (from < to) {
            std::copy(source.data + static_cast<size_t>(from - source.first) * bands,
                      source.data + static_cast<size_t>(to - source.first) * bands,
                      mel.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(i * rows + from - first) * bands));
        }
    }
    ggml_backend_tensor_set(shape.mel, mel.data(), 0, mel.size() * sizeof(float));
    executor_.compute(shape.graph);
    const auto* out = static_cast<const float*>(shape.out->data);
    for (int i = 0; i < count; ++i) {
        std::copy_n(out + static_cast<size_t>(i * frames) * width, static_cast<size_t>(pieces[i].count) * width,
                    pieces[i].out);
    }
}

}  // namespace stenod::parakeet
