#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/executor.h"

namespace stenod::parakeet {

/// One layer of the predictor's LSTM; rows of gates in torch's order i, f, g, o.
struct LstmLayer {
    ggml_tensor* input = nullptr;      ///< [in, 4 * hidden]
    ggml_tensor* recurrent = nullptr;  ///< [hidden, 4 * hidden]
    ggml_tensor* bias = nullptr;       ///< [4 * hidden], f32: the sum of torch's two
};

/// What makes tokens of encoder frames: a predictor and a joint network (RNN-T, TDT), or one matrix (CTC).
/// Filled by the loader, which has checked every shape. The model owns the tensors.
struct HeadWeights {
    int encoder_width = 0;
    int tokens = 0;                         ///< without blank, whose id is `tokens`
    ggml_tensor* ctc = nullptr;             ///< [encoder_width, tokens + 1 padded to kRowTile]; null in a transducer
    ggml_tensor* ctc_bias = nullptr;        ///< [tokens + 1 padded], f32

    int hidden = 0;                         ///< width of the embedding and of the LSTM
    int joint_width = 0;
    std::vector<int> durations;             ///< of TDT, in frames, ascending from 0; empty: RNN-T
    int max_symbols = 10;                   ///< at one frame
    ggml_tensor* embedding = nullptr;       ///< [hidden, tokens + 1]; the blank's row is zero
    std::vector<LstmLayer> lstm;            ///< 1 or more
    ggml_tensor *encoder = nullptr, *encoder_bias = nullptr;      ///< [encoder_width, joint_width], [joint_width]
    ggml_tensor *predictor = nullptr, *predictor_bias = nullptr;  ///< [hidden, joint_width], [joint_width]
    ggml_tensor *output = nullptr, *output_bias = nullptr;        ///< [joint_width, outputs() padded], [same]

    bool is_ctc() const { return ctc != nullptr; }
    int blank() const { return tokens; }
    /// Values that the network gives for a frame: tokens, blank, durations.
    int outputs() const { return tokens + 1 + static_cast<int>(durations.size()); }
    /// Values of a projected frame, see `Head::project`.
    int frame_width() const { return is_ctc() ? static_cast<int>(ctc->ne[1]) : joint_width; }
};

/// The predictor after some tokens: immutable, so that hypotheses and copies of a stream share it.
struct PredictorState {
    std::vector<float> memory;      ///< [2 * layers][hidden]: each layer's h and c
    std::vector<float> projection;  ///< [joint_width]: the top layer's h as the joint takes it
};
using PredictorStatePtr = std::shared_ptr<const PredictorState>;

/// What may come at one frame after one sequence of tokens.
struct Query {
    static constexpr int kNone = -1;

    PredictorStatePtr state;       ///< null: nothing was fed yet
    int token = kNone;             ///< fed to the predictor first, blank to begin with; replaced by kNone, and `state` by the new one
    const float* frame = nullptr;  ///< a projected frame
    const float* logits = nullptr; ///< answer: [outputs], until the next `answer` of the head
};

/// Computes the head in common passes over its weights. What a query gets never depends on which others are answered
/// with it. Graphs are built once for each number of columns.
class Head {
public:
    Head(const HeadWeights& weights, Executor& executor);
    ~Head();

    const HeadWeights& weights() const { return weights_; }

    /// Encoder frames [count][encoder_width] as the search takes them, [count][frame_width]: projected for the joint, or
    /// CTC's logits. Each frame's values depend on that frame alone.
    /// Throws Aborted, BackendError, OutOfMemory.
    std::vector<float> project(const float* frames, int count);

    /// Answers all queries (of a transducer). On an exception the queries are as they were. Throws as `project`.
    void answer(const std::vector<Query*>& queries);

    /// Queries that one pass answers.
    static constexpr int kMostColumns = 16;

private:
    enum class Kind { project, join, predict_and_join };
    struct Pass;

    Pass& pass(Kind kind, int columns);
    std::unique_ptr<Pass> build(Kind kind, int columns) const;
    void join(Query* const* queries, int count, float* logits);
    void predict_and_join(Query* const* queries, int count, float* logits, PredictorStatePtr* states);

    const HeadWeights& weights_;
    Executor& executor_;
    std::map<std::pair<Kind, int>, std::unique_ptr<Pass>> passes_;
    std::vector<float> logits_;  ///< of the last `answer`
};

}  // namespace stenod::parakeet
