#include "parakeet/transducer.h"

#include <algorithm>
#include <cstring>

#include "graph/matmul.h"
#include "graph/ops.h"
#include "parakeet/lstm.h"

namespace stenod::parakeet {

namespace {

/// A matrix times one column and times several take different kernels with different roundings.
/// No pass has fewer columns than this, so that a stream's tokens do not depend on its company.
constexpr int kLeastColumns = 2;

}  // namespace

/// The graph of one kind of pass, for one number of columns. Columns that are not needed repeat the last one.
struct Head::Pass {
    explicit Pass(size_t max_nodes) : graph(max_nodes) {}

    Graph graph;
    ggml_tensor* frames = nullptr;      ///< [encoder_width or joint_width, columns]
    ggml_tensor* projection = nullptr;  ///< [joint_width, columns]: of the predictor; read or made
    ggml_tensor* tokens = nullptr;      ///< [columns], i32
    std::vector<ggml_tensor*> hidden, cell;  ///< each layer's [hidden, columns]
    std::vector<ggml_tensor*> memory;   ///< each layer's [hidden, 2 * columns]: h, then c, after the tokens
    ggml_tensor* result = nullptr;      ///< projected frames, or logits
};

Head::Head(const HeadWeights& weights, Executor& executor) : weights_(weights), executor_(executor) {}

Head::~Head() = default;

std::vector<float> Head::project(const float* frames, int count) {
    const size_t in = weights_.encoder_width, out = weights_.frame_width();
    std::vector<float> projected(out * count);
    for (int first = 0; first < count; first += kMostColumns) {
        const int columns = std::min(count - first, kMostColumns);
        Pass& pass = this->pass(Kind::project, columns);
        for (int i = 0; i < pass.frames->ne[1]; ++i) {
            std::copy_n(frames + (first + std::min(i, columns - 1)) * in, in, row(pass.frames, i));
        }
        executor_.compute(pass.graph);
        for (int i = 0; i < columns; ++i) std::copy_n(row(pass.result, i), out, projected.data() + (first + i) * out);
    }
    return projected;
}

void Head::answer(const std::vector<Query*>& queries) {
    // Those whose predictor stands still come first: they need less.
    std::vector<Query*> sorted(queries);
    const auto moving = std::stable_partition(sorted.begin(), sorted.end(),
                                              [](const Query* query) { return query->token == Query::kNone; });
    logits_.resize(sorted.size() * weights_.outputs());
    std::vector<PredictorStatePtr> states(sorted.size());
    const size_t standing = moving - sorted.begin();
    for (size_t i = 0; i < standing; i += kMostColumns) {
        join(sorted.data() + i, std::min<size_t>(kMostColumns, standing - i), logits_.data() + i * weights_.outputs());
    }
    for (size_t i = standing; i < sorted.size(); i += kMostColumns) {
        predict_and_join(sorted.data() + i, std::min<size_t>(kMostColumns, sorted.size() - i),
                         logits_.data() + i * weights_.outputs(), states.data() + i);
    }
    for (size_t i = 0; i < sorted.size(); ++i) {
        sorted[i]->logits = logits_.data() + i * weights_.outputs();
        if (i < standing) continue;
        sorted[i]->state = std::move(states[i]);
        sorted[i]->token = Query::kNone;
    }
}

void Head::join(Query* const* queries, int count, float* logits) {
    Pass& pass = this->pass(Kind::join, count);
    for (int i = 0; i < pass.frames->ne[1]; ++i) {
        const Query& query = *queries[std::min(i, count - 1)];
        std::copy_n(query.frame, weights_.joint_width, row(pass.frames, i));
        std::copy_n(query.state->projection.data(), weights_.joint_width, row(pass.projection, i));
    }
    executor_.compute(pass.graph);
    for (int i = 0; i < count; ++i) {
        std::copy_n(row(pass.result, i), weights_.outputs(), logits + i * weights_.outputs());
    }
}

void Head::predict_and_join(Query* const* queries, int count, float* logits, PredictorStatePtr* states) {
    Pass& pass = this->pass(Kind::predict_and_join, count);
    const size_t hidden = weights_.hidden, layers = weights_.lstm.size();
    for (int i = 0; i < pass.frames->ne[1]; ++i) {
        const Query& query = *queries[std::min(i, count - 1)];
        static_cast<int32_t*>(pass.tokens->data)[i] = query.token;
        std::copy_n(query.frame, weights_.joint_width, row(pass.frames, i));
        for (size_t layer = 0; layer < layers; ++layer) {
            for (size_t part = 0; part < 2; ++part) {
                float* to = row(part == 0 ? pass.hidden[layer] : pass.cell[layer], i);
                if (query.state) {
                    std::copy_n(query.state->memory.data() + (2 * layer + part) * hidden, hidden, to);
                } else {
                    std::fill_n(to, hidden, 0.0f);
                }
            }
        }
    }
    executor_.compute(pass.graph);
    for (int i = 0; i < count; ++i) {
        std::copy_n(row(pass.result, i), weights_.outputs(), logits + i * weights_.outputs());
        auto state = std::make_shared<PredictorState>();
        state->memory.resize(2 * layers * hidden);
        for (size_t layer = 0; layer < layers; ++layer) {
            ggml_tensor* memory = pass.memory[layer];
            for (size_t part = 0; part < 2; ++part) {
                std::copy_n(row(memory, part * memory->ne[1] / 2 + i), hidden,
                            state->memory.data() + (2 * layer + part) * hidden);
            }
        }
        state->projection.assign(row(pass.projection, i), row(pass.projection, i) + weights_.joint_width);
        states[i] = std::move(state);
    }
}

Head::Pass& Head::pass(Kind kind, int columns) {
    columns = std::max(columns, kLeastColumns);
    auto& slot = passes_[{kind, columns}];
    if (!slot) slot = build(kind, columns);
    executor_.prepare(slot->graph);
    return *slot;
}

std::unique_ptr<Head::Pass> Head::build(Kind kind, int columns) const {
    auto pass = std::make_unique<Pass>(32 + 12 * weights_.lstm.size());
    Graph& graph = pass->graph;
    ggml_context* context = graph.context();
    const auto linear = [&](ggml_tensor* weight, ggml_tensor* bias, ggml_tensor* x) {
        ggml_tensor* product = multiply(context, weight, x);
        return bias ? add_bias(context, product, bias) : product;
    };
    const auto input = [&](int width) { return graph.input(GGML_TYPE_F32, width, columns); };
    if (kind == Kind::project) {
        pass->frames = input(weights_.encoder_width);
        pass->result = weights_.is_ctc() ? linear(weights_.ctc, weights_.ctc_bias, pass->frames)
                                         : linear(weights_.encoder, weights_.encoder_bias, pass->frames);
        graph.output(pass->result);
        return pass;
    }
    pass->frames = input(weights_.joint_width);
    if (kind == Kind::join) {
        pass->projection = input(weights_.joint_width);
    } else {
        pass->tokens = graph.input(GGML_TYPE_I32, columns);
        ggml_tensor* x = ggml_get_rows(context, weights_.embedding, pass->tokens);
        for (const LstmLayer& layer : weights_.lstm) {
            pass->hidden.push_back(input(weights_.hidden));
            pass->cell.push_back(input(weights_.hidden));
            ggml_tensor* memory =
                lstm_cell(context, multiply(context, layer.input, x),
                          multiply(context, layer.recurrent, pass->hidden.back()), layer.bias, pass->cell.back());
            graph.output(memory);
            pass->memory.push_back(memory);
            x = ggml_view_2d(context, memory, weights_.hidden, columns, memory->nb[1], 0);
        }
        pass->projection = linear(weights_.predictor, weights_.predictor_bias, x);
        graph.output(pass->projection);
    }
    ggml_tensor* joined = ggml_relu(context, ggml_add(context, pass->frames, pass->projection));
    pass->result = linear(weights_.output, weights_.output_bias, joined);
    graph.output(pass->result);
    return pass;
}

}  // namespace stenod::parakeet
