#include "whisper/decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "errors.h"
#include "graph/cached_attention.h"
#include "whisper/layers.h"

namespace stenod::whisper {

namespace {

constexpr int kMostLanes = 16;  ///< in one pass
/// A matrix times one column and times several take different kernels with different roundings.
/// No pass has fewer columns than this, so that a stream's text does not depend on its company.
constexpr int kLeastColumns = 2;
/// Passes of single tokens have a column more than lanes.
constexpr int kSpareColumns = 1;

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Gives a tensor whose first dimension varies from pass to pass its length of now.
void set_length(ggml_tensor* tensor, int64_t length) {
    tensor->ne[0] = length;
    tensor->nb[1] = tensor->nb[0] * length;
    for (int i = 2; i < GGML_MAX_DIMS; ++i) tensor->nb[i] = tensor->nb[i - 1] * tensor->ne[i - 1];
}

}  // namespace

Lane::Lane(const Model& model) : context_(make_context(2 * model.decoder.blocks)) {
    for (int i = 0; i < model.decoder.blocks; ++i) {
        for (auto* list : {&keys, &values}) {
            list->push_back(ggml_new_tensor_2d(context_.get(), model.cache_type(), model.decoder.width,
                                               model.decoder.context + 1));
        }
    }
    buffer_ = allocate_tensors(context_.get());
}

void Lane::copy(const Lane& other, int shared) {
    for (size_t i = 0; i < keys.size(); ++i) {
        const size_t begin = shared * keys[i]->nb[1], bytes = other.length * keys[i]->nb[1] - begin;
        std::memcpy(static_cast<char*>(keys[i]->data) + begin, static_cast<char*>(other.keys[i]->data) + begin, bytes);
        std::memcpy(static_cast<char*>(values[i]->data) + begin, static_cast<char*>(other.values[i]->data) + begin,
                    bytes);
    }
    length = other.length;
}

/// The graph of one kind of pass. Caches are bound lane by lane before each computation.
struct Decoder::Pass {
    explicit Pass(size_t max_nodes) : graph(max_nodes) {}

    /// A lane's part of one block.
    struct Binding {
        int block;
        ggml_tensor *stored_key, *stored_value;  ///< results of writing the new rows: [width, context + 1]
        ggml_tensor *keys, *values;              ///< self-attention reads [head, tokens, heads]
        ggml_tensor *cross_keys, *cross_values;  ///< cross-attention reads [head, positions, heads]
        ggml_tensor *scores, *weights;           ///< attention kept: [positions, outputs, heads]; null elsewhere
    };
    struct LaneTensors {
        ggml_tensor* cells = nullptr;  ///< where the new rows go
        ggml_tensor* mask = nullptr;   ///< [tokens, rows]; null for single rows, which see everything
        std::vector<Binding> blocks;
    };

    Graph graph;
    ggml_tensor *tokens = nullptr, *positions = nullptr, *outputs = nullptr, *logits = nullptr;
    std::vector<LaneTensors> lanes;

    /// Memory is planned for the lengths that tensors have then: for the longest, not for those of the last pass.
    void set_longest(const Model& model) {
        for (LaneTensors& lane : lanes) {
            if (lane.mask) set_length(lane.mask, model.decoder.context);
            for (Binding& binding : lane.blocks) {
                if (binding.scores) set_length(binding.scores, model.encoder.context);
                if (binding.weights) set_length(binding.weights, model.encoder.context);
            }
        }
    }
};

Decoder::Decoder(const Model& model, Executor& executor) : model_(model), executor_(executor) {}
Decoder::~Decoder() = default;

void Decoder::decode(const std::vector<DecodeRequest*>& requests) {
    std::vector<DecodeRequest*> single;
    for (DecodeRequest* request : requests) {
        if (request->decoded) continue;
        check(*request);
        if (request->tokens.size() == 1) {
            single.push_back(request);
        } else {
            run({request});
        }
    }
    for (size_t i = 0; i < single.size(); i += kMostLanes) {
        run({single.begin() + i, single.begin() + std::min(single.size(), i + kMostLanes)});
    }
}

void Decoder::check(const DecodeRequest& request) const {
    const int count = static_cast<int>(request.tokens.size());
    if (count == 0) throw BadArgument("tokens: none to decode");
    if (request.lane->length + count > model_.decoder.context) {
        throw BadArgument("tokens: the decoder holds at most " + std::to_string(model_.decoder.context));
    }
    if (request.first_output < 0 || request.first_output >= count) throw BadArgument("first_output: out of range");
    if (request.cross->positions == 0) throw BadArgument("cross: nothing was encoded");
    for (int token : request.tokens) {
        if (token < 0 || token >= model_.vocabulary) {
            throw BadArgument("tokens: " + std::to_string(token) + " is not in the vocabulary");
        }
    }
}

void Decoder::run(const std::vector<DecodeRequest*>& lanes) {
    const DecodeRequest& first = *lanes.front();
    Key key{static_cast<int>(lanes.size()), 1, std::max(kLeastColumns, static_cast<int>(lanes.size()))};
    if (first.tokens.size() > 1) {
        key.rows = round_up(static_cast<int>(first.tokens.size()), 8);
        key.outputs = first.outputs() <= kLeastColumns ? kLeastColumns : round_up(first.outputs(), 8);
    }
    Pass& pass = this->pass(key);
    pass.set_longest(model_);
    executor_.prepare(pass.graph);
    write_inputs(pass, key, lanes);
    executor_.compute(pass.graph);
    read_outputs(pass, key, lanes);
    for (DecodeRequest* request : lanes) {
        request->lane->length += static_cast<int>(request->tokens.size());
        request->decoded = true;
    }
}

Decoder::Pass& Decoder::pass(const Key& key) {
    auto& slot = passes_[key];
    if (!slot) slot = build(key);
    return *slot;
}

/// Builds one pass, block by block; `lanes` share the matrices, each has its own attention.
class PassBuilder {
public:
    PassBuilder(const Model& model, Graph& graph) : model_(model), graph_(graph), context_(graph.context()) {}

    /// Rows [first, first + rows) of x as [head, rows, heads].
    ggml_tensor* heads_of(ggml_tensor* x, int first, int rows) const {
        const int64_t head = model_.decoder.head_width();
        return ggml_view_3d(context_, x, head, rows, model_.decoder.heads, x->nb[1], head * sizeof(float),
                            first * x->nb[1]);
    }

    ggml_tensor* rows_of(ggml_tensor* x, int first, int rows) const {
        return ggml_view_2d(context_, x, x->ne[0], rows, x->nb[1], first * x->nb[1]);
    }

    /// A cache's rows, seen head by head; as many as `longest`, until bound.
    ggml_tensor* cache(int longest) const {
        const StackSize& size = model_.decoder;
        ggml_tensor* tensor = graph_.external(model_.cache_type(), size.head_width(), longest, size.heads);
        const size_t element = ggml_element_size(tensor);
        tensor->nb[1] = size.width * element;
        tensor->nb[2] = size.head_width() * element;
        return tensor;
    }

    ggml_tensor* store(ggml_tensor* rows, ggml_tensor* cells) const {
        ggml_tensor* cache = graph_.external(model_.cache_type(), model_.decoder.width, model_.decoder.context + 1);
        ggml_tensor* result = ggml_set_rows(context_, cache, rows, cells);
        graph_.writes_external(result);
        return result;
    }

    ggml_tensor* attend_cross(ggml_tensor* query, int first, int rows, ggml_tensor* keys, ggml_tensor* values) const {
        ggml_tensor* result = attend_to_cache(context_, heads_of(query, first, rows), keys, values, nullptr);
        if (result) return result;
        // ggml would split a single row among the threads, with roundings that depend on their number: the next row
        // is computed with it.
        result = attend_with_ggml(heads_of(query, first, std::max(2, rows)), keys, values, nullptr);
        return rows > 1 ? result : rows_of(result, 0, 1);
    }

    ggml_tensor* attend(ggml_tensor* query, ggml_tensor* keys, ggml_tensor* values, ggml_tensor* mask) const {
        ggml_tensor* result = attend_to_cache(context_, query, keys, values, mask);
        return result ? result : attend_with_ggml(query, keys, values, mask);
    }

    /// One tensor of all lanes' rows, padded to `columns` by repeating.
    ggml_tensor* join(std::vector<ggml_tensor*> parts, int columns) const {
        while (static_cast<int>(parts.size()) < columns && parts.front()->ne[1] == 1) parts.push_back(parts.front());
        while (parts.size() > 1) {
            std::vector<ggml_tensor*> joined;
            for (size_t i = 0; i < parts.size(); i += 2) {
                joined.push_back(i + 1 < parts.size() ? ggml_concat(context_, parts[i], parts[i + 1], 1) : parts[i]);
            }
            parts = std::move(joined);
        }
        return parts.front();
    }

private:
    ggml_tensor* attend_with_ggml(ggml_tensor* query, ggml_tensor* keys, ggml_tensor* values, ggml_tensor* mask) const {
        ggml_tensor* result = ggml_flash_attn_ext(context_, query, keys, values, mask, attention_scale(model_.decoder), 0.0f, 0.0f);
        return ggml_reshape_2d(context_, result, model_.decoder.width, query->ne[1]);
    }

    const Model& model_;
    Graph& graph_;
    ggml_context* context_;
};

std::unique_ptr<Decoder::Pass> Decoder::build(const Key& key) const {
    const StackSize& size = model_.decoder;
    auto pass = std::make_unique<Pass>(64 + size.blocks * (24 + 16 * key.lanes));
    Graph& graph = pass->graph;
    ggml_context* context = graph.context();
    const PassBuilder builder(model_, graph);
    const int columns = key.rows == 1 ? key.lanes + kSpareColumns : key.rows;

    pass->tokens = graph.input(GGML_TYPE_I32, columns);
    pass->positions = graph.input(GGML_TYPE_I32, columns);
    pass->outputs = graph.input(GGML_TYPE_I32, key.outputs);
    pass->lanes.resize(key.lanes);
    for (auto& lane : pass->lanes) {
        lane.cells = graph.input(GGML_TYPE_I64, key.rows);
        if (key.rows > 1) lane.mask = graph.input(GGML_TYPE_F16, size.context, key.rows);
    }

    ggml_tensor* x = ggml_add(context, look_up(context, model_.token_embedding, pass->tokens),
                              ggml_get_rows(context, model_.decoder_positions, pass->positions));
    for (int index = 0; index < size.blocks; ++index) {
        const Block& block = model_.decoder_blocks[index];
        ggml_tensor* input = normalise(context, block.self.norm, x);
        ggml_tensor* query = apply(context, block.self.query, input);
        ggml_tensor* key_rows = apply(context, block.self.key, input);
        ggml_tensor* value_rows = apply(context, block.self.value, input);
        std::vector<ggml_tensor*> attended;
        for (int i = 0; i < key.lanes; ++i) {
            auto& lane = pass->lanes[i];
            Pass::Binding binding{};
            binding.block = index;
            const int first = i * key.rows;
            binding.stored_key = builder.store(builder.rows_of(key_rows, first, key.rows), lane.cells);
            binding.stored_value = builder.store(builder.rows_of(value_rows, first, key.rows), lane.cells);
            binding.keys = builder.cache(size.context);
            binding.values = builder.cache(size.context);
            attended.push_back(
                builder.attend(builder.heads_of(query, first, key.rows), binding.keys, binding.values, lane.mask));
            lane.blocks.push_back(binding);
        }
        x = apply_residual(context, block.self.out, builder.join(attended, columns), x);

        query = apply(context, block.cross.query, normalise(context, block.cross.norm, x));
        const bool keep = std::any_of(model_.alignment_heads.begin(), model_.alignment_heads.end(),
                                      [&](const auto& head) { return head.first == index; });
        ggml_tensor* kept_query = keep ? ggml_get_rows(context, query, pass->outputs) : nullptr;
        attended.clear();
        for (int i = 0; i < key.lanes; ++i) {
            Pass::Binding& binding = pass->lanes[i].blocks.back();
            binding.cross_keys = builder.cache(model_.encoder.context);
            binding.cross_values = builder.cache(model_.encoder.context);
            attended.push_back(builder.attend_cross(query, i * key.rows, key.rows, binding.cross_keys,
                                                    binding.cross_values));
            if (!keep) continue;
            const int rows = key.rows == 1 ? 1 : key.outputs;
            binding.scores = ggml_mul_mat(context, binding.cross_keys, builder.heads_of(kept_query, i, rows));
            binding.weights = ggml_soft_max_ext(context, binding.scores, nullptr, attention_scale(size), 0.0f);
            graph.output(binding.weights);
        }
        x = apply_residual(context, block.cross.out, builder.join(attended, columns), x);
        x = feed_forward(context, block, x);
    }
    x = normalise(context, model_.decoder_norm, ggml_get_rows(context, x, pass->outputs));
    pass->logits = multiply(context, model_.token_embedding, x);
    graph.output(pass->logits);
    return pass;
}

void Decoder::write_inputs(Pass& pass, const Key& key, const std::vector<DecodeRequest*>& lanes) const {
    const int columns = static_cast<int>(pass.tokens->ne[0]);
    std::vector<int32_t> tokens(columns, 0), positions(columns, 0), outputs(key.outputs);
    for (int i = 0; i < key.lanes; ++i) {
        const DecodeRequest& request = *lanes[i];
        Pass::LaneTensors& tensors = pass.lanes[i];
        const int count = static_cast<int>(request.tokens.size()), past = request.lane->length;
        std::vector<int64_t> cells(key.rows, model_.decoder.context);  // padding rows go to the spare cell
        for (int row = 0; row < count; ++row) {
            tokens[i * key.rows + row] = request.tokens[row];
            positions[i * key.rows + row] = past + row;
            cells[row] = past + row;
        }
        ggml_backend_tensor_set(tensors.cells, cells.data(), 0, cells.size() * sizeof(int64_t));
        if (tensors.mask) {
            const ggml_fp16_t seen = ggml_fp32_to_fp16(0.0f);
            const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
            const int length = past + count;
            set_length(tensors.mask, length);
            std::vector<ggml_fp16_t> mask(static_cast<size_t>(key.rows) * length, hidden);
            for (int row = 0; row < key.rows; ++row) {
                const int visible = std::min(past + row + 1, length);
                std::fill_n(mask.begin() + static_cast<size_t>(row) * length, visible, seen);
            }
            ggml_backend_tensor_set(tensors.mask, mask.data(), 0, mask.size() * sizeof(ggml_fp16_t));
        }
        const CrossCache& cross = *request.cross;
        for (Pass::Binding& binding : tensors.blocks) {
            ggml_tensor *keys = request.lane->keys[binding.block], *values = request.lane->values[binding.block];
            bind(binding.stored_key, request.lane->buffer(), keys->data);
            bind(binding.stored_value, request.lane->buffer(), values->data);
            bind(binding.keys, request.lane->buffer(), keys->data);
            bind(binding.values, request.lane->buffer(), values->data);
            bind(binding.cross_keys, cross.buffer(), cross.keys[binding.block]->data);
            bind(binding.cross_values, cross.buffer(), cross.values[binding.block]->data);
            binding.keys->ne[1] = binding.values->ne[1] = past + count;
            binding.cross_keys->ne[1] = binding.cross_values->ne[1] = cross.positions;
            if (binding.weights) {
                set_length(binding.scores, cross.positions);
                set_length(binding.weights, cross.positions);
            }
        }
    }
    for (int i = 0; i < key.outputs; ++i) {
        // Padding repeats the last.
        outputs[i] = key.rows == 1 ? std::min(i, key.lanes - 1)
                                   : std::min(lanes[0]->first_output + i, static_cast<int>(lanes[0]->tokens.size()) - 1);
    }
    ggml_backend_tensor_set(pass.tokens, tokens.data(), 0, tokens.size() * sizeof(int32_t));
    ggml_backend_tensor_set(pass.positions, positions.data(), 0, positions.size() * sizeof(int32_t));
    ggml_backend_tensor_set(pass.outputs, outputs.data(), 0, outputs.size() * sizeof(int32_t));
}

void Decoder::read_outputs(const Pass& pass, const Key& key, const std::vector<DecodeRequest*>& lanes) const {
    const size_t vocabulary = model_.vocabulary, stride = pass.logits->ne[0];
    const auto* logits = static_cast<const float*>(pass.logits->data);
    for (int i = 0; i < key.lanes; ++i) {
        DecodeRequest& request = *lanes[i];
        const size_t count = request.outputs(), positions = request.cross->positions;
        request.logits.resize(count * vocabulary);
        for (size_t row = 0; row < count; ++row) {
            std::copy_n(logits + (i + row) * stride, vocabulary, request.logits.begin() + row * vocabulary);
        }
        request.attention.resize(model_.alignment_heads.size() * count * positions);
        auto out = request.attention.begin();
        for (const auto& [block, head] : model_.alignment_heads) {
            const ggml_tensor* weights = pass.lanes[i].blocks[block].weights;
            const auto* from = static_cast<const float*>(weights->data) + head * positions * weights->ne[1];
            out = std::copy_n(from, count * positions, out);
        }
    }
}

}  // namespace stenod::whisper
