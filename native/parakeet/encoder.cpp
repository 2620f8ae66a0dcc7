#include "parakeet/encoder.h"

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "graph/layers.h"
#include "parakeet/attention.h"
#include "parakeet/convolution.h"

namespace stenod::parakeet {

namespace {

constexpr int kLeastRows = 2;      // one column would take another matrix kernel
constexpr int kMostRows = 1024;    // of several requests together
constexpr size_t kMostShapes = 64; // kept

/// The least number of rows that a graph is built for and that holds `rows`.
int bucket(int rows) {
    const int step = rows <= 32 ? 1 : rows <= 256 ? 8 : rows <= 1024 ? 32 : 128;
    return std::max(kLeastRows, (rows + step - 1) / step * step);
}

/// Sines and cosines of distances from `greatest` down to greatest - rows + 1: [rows][width].
std::vector<float> position_waves(int greatest, int rows, int width) {
    std::vector<float> waves(static_cast<size_t>(rows) * static_cast<size_t>(width));
    std::vector<float> frequencies;
    for (int i = 0; i < width; i += 2) {
        frequencies.push_back(std::exp(static_cast<float>(i) * -(std::log(10000.0f) / static_cast<float>(width))));
    }
    float* out = waves.data();
    for (int row = 0; row < rows; ++row) {
        for (float frequency : frequencies) {
            const float angle = static_cast<float>(greatest - row) * frequency;
            *out++ = std::sin(angle);
            *out++ = std::cos(angle);
        }
    }
    return waves;
}

ggml_tensor* feed_forward(ggml_context* context, const FeedForward& part, ggml_tensor* x) {
    ggml_tensor* hidden = multiply(context, part.up.weight, normalise(context, part.norm, x));
    hidden = bias_silu(context, hidden, part.up.bias);
    return bias_half_residual(context, multiply(context, part.down.weight, hidden), part.down.bias, x);
}

}  // namespace

/// The graph of one number of rows, and the tensors through which it is fed and read.
struct Encoder::Shape {
    explicit Shape(size_t max_nodes) : graph(max_nodes) {}

    Graph graph;
    Batch batch;
    std::vector<BlockView> views;  ///< of each block
    ggml_tensor* subsampled = nullptr;
    ggml_tensor* waves = nullptr;  ///< where attention is not limited: [width, distances]
    std::vector<float> wave_values;
    ggml_tensor* encoded = nullptr;
    uint64_t last_run = 0;
};

Encoder::Encoder(const Model& model, Executor& executor)
    : model_(model), executor_(executor), subsampler_(model, executor) {
    int left = 0, right = 0;
    for (const AttentionContext& context : model.contexts) {
        if (context.left < 0 || context.right < 0) return;
        left = std::max(left, model.cache_aware ? context.left + context.right : context.left);
        right = std::max(right, context.right);
    }
    greatest_distance_ = left;
    table_rows_ = left + right + 1;
    make_table();
}

Encoder::~Encoder() = default;

void Encoder::make_table() {
    const int width = model_.encoder.width, rows = std::max(kLeastRows, table_rows_);
    table_context_ = make_context(model_.blocks.size());
    for (size_t i = 0; i < model_.blocks.size(); ++i) {
        table_.push_back(ggml_new_tensor_2d(table_context_.get(), GGML_TYPE_F32, width, rows));
    }
    table_buffer_ = allocate_tensors(table_context_.get());
    const std::vector<float> values = position_waves(greatest_distance_, rows, width);
    for (size_t i = 0; i < model_.blocks.size(); ++i) {
        Graph graph(4);
        ggml_tensor* waves = graph.input(GGML_TYPE_F32, width, rows);
        ggml_tensor* positions = multiply(graph.context(), model_.blocks[i].position, waves);
        graph.output(positions);
        executor_.prepare(graph);
        ggml_backend_tensor_set(waves, values.data(), 0, values.size() * sizeof(float));
        executor_.compute(graph);
        ggml_backend_tensor_get(positions, table_[i]->data, 0, ggml_nbytes(table_[i]));
    }
}

Encoder::Shape& Encoder::shape(const Key& key) {
    auto found = shapes_.find(key);
    if (found == shapes_.end()) {
        if (shapes_.size() >= kMostShapes) {
            shapes_.erase(std::min_element(shapes_.begin(), shapes_.end(), [](const auto& a, const auto& b) {
                return a.second->last_run < b.second->last_run;
            }));
        }
        found = shapes_.emplace(key, build(key)).first;
    }
    found->second->last_run = ++runs_;
    return *found->second;
}

std::unique_ptr<Encoder::Shape> Encoder::build(const Key& key) {
    const auto [rows, longest] = key;
    const int width = model_.encoder.width;
    auto shape = std::make_unique<Shape>(16 + 40 * model_.blocks.size());
    Graph& graph = shape->graph;
    ggml_context* context = graph.context();
    shape->subsampled = graph.input(GGML_TYPE_F32, width, rows);
    shape->batch.greatest_distance = greatest_distance_;
    if (!limited()) {
        shape->batch.greatest_distance = longest - 1;
        shape->waves = graph.input(GGML_TYPE_F32, width, 2 * longest - 1);
        shape->wave_values = position_waves(longest - 1, 2 * longest - 1, width);
    }
    shape->views.reserve(model_.blocks.size());  // the graph keeps pointers to them
    ggml_tensor* x = shape->subsampled;
    for (const ConformerBlock& block : model_.blocks) {
        BlockView& view =
            shape->views.emplace_back(BlockView{&shape->batch, static_cast<int>(shape->views.size()), model_.encoder.heads});
        x = feed_forward(context, block.first, x);

        ggml_tensor* projected =
            multiply(context, block.query_key_value, normalise(context, block.attention_norm, x));
        ggml_tensor* positions = limited() ? table_[static_cast<size_t>(view.block)]
                                           : multiply(context, block.position, shape->waves);
        x = apply_residual(context, block.attention_out, attend(graph, block, view, projected, positions), x);

        ggml_tensor* gated = multiply(context, block.expand.weight, normalise(context, block.convolution_norm, x));
        gated = convolve(graph, block, view, bias_glu(context, gated, block.expand.bias));
        if (block.depthwise_norm.weight) gated = normalise(context, block.depthwise_norm, gated);
        x = apply_residual(context, block.contract, ggml_silu_inplace(context, gated), x);

        x = normalise(context, block.out_norm, feed_forward(context, block.second, x));
    }
    shape->encoded = x;
    graph.output(x);
    return shape;
}

void Encoder::encode(const std::vector<EncodeRequest*>& requests) {
    const double before = executor_.seconds();
    for (size_t first = 0; first < requests.size();) {
        size_t end = first;
        int rows = 0;
        do {
            rows += requests[end++]->count;
        } while (end < requests.size() && rows + requests[end]->count <= kMostRows);
        run(&requests[first], end - first);
        first = end;
    }
    seconds_ += executor_.seconds() - before;
}

void Encoder::run(EncodeRequest* const* requests, size_t count) {
    const auto width = static_cast<size_t>(model_.encoder.width);
    Batch batch;
    int longest = 1;
    for (size_t i = 0; i < count; ++i) {
        EncodeRequest& request = *requests[i];
        if (!request.cache == model_.cache_aware) throw BadArgument("cache: goes with a cache-aware model");
        if (request.cache) request.cache->prepare(request.count);
        batch.spans.push_back({batch.rows(), request.count, request.cache, model_.contexts.front()});
        longest = std::max(longest, request.count);
    }
    const int rows = bucket(batch.rows());
    std::vector<float> subsampled(static_cast<size_t>(rows) * width);
    std::vector<Subsampler::Request> stretches;
    for (size_t i = 0; i < count; ++i) {
        const Span& span = batch.spans[i];
        stretches.push_back({requests[i]->mel, span.first(), span.count,
                             subsampled.data() + static_cast<size_t>(span.row) * width});
    }
    subsampler_.compute(stretches);

    Shape& shape = this->shape({rows, limited() ? 0 : bucket(longest)});
    executor_.prepare(shape.graph);
    shape.batch.spans = batch.spans;
    ggml_backend_tensor_set(shape.subsampled, subsampled.data(), 0, subsampled.size() * sizeof(float));
    if (shape.waves) {
        ggml_backend_tensor_set(shape.waves, shape.wave_values.data(), 0, shape.wave_values.size() * sizeof(float));
    }
    executor_.compute(shape.graph);
    const auto* encoded = static_cast<const float*>(shape.encoded->data);
    for (size_t i = 0; i < count; ++i) {
        const float* from = encoded + static_cast<size_t>(batch.spans[i].row) * width;
        requests[i]->encoded.assign(from, from + static_cast<size_t>(requests[i]->count) * width);
    }
}

}  // namespace stenod::parakeet
