#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "graph/executor.h"
#include "whisper/encoder.h"
#include "whisper/model.h"

namespace stenod::whisper {

/// The decoder's self-attention keys and values for one sequence of tokens.
class Lane {
public:
    explicit Lane(const Model& model);

    int length = 0;  ///< tokens held; lowering it rewinds
    std::vector<ggml_tensor*> keys, values;  ///< each block's [width, context + 1]; the last cell takes padding
    ggml_backend_buffer* buffer() const { return buffer_.get(); }

    /// Becomes equal to `other`, of which the first `shared` tokens are known to be equal already.
    void copy(const Lane& other, int shared);

private:
    ContextPtr context_;
    BufferPtr buffer_;
};

/// Tokens to append to one lane, and what comes back for them.
struct DecodeRequest {
    Lane* lane = nullptr;
    const CrossCache* cross = nullptr;
    std::vector<int> tokens;
    int first_output = 0;  ///< outputs are wanted of the tokens from this index on
    bool decoded = false;  ///< set when done; `decode` passes over such requests, so that it may be tried again

    /// [outputs][vocabulary]: what may follow each token.
    std::vector<float> logits;
    /// [alignment heads][outputs][positions of cross]: where each token's row looked, after softmax.
    std::vector<float> attention;

    int outputs() const { return static_cast<int>(tokens.size()) - first_output; }
};

/// Whisper's decoder: appends tokens to several lanes in common passes over the weights.
/// What a lane gets never depends on which others are in the batch.
class Decoder {
public:
    Decoder(const Model& model, Executor& executor);
    ~Decoder();

    /// Runs all requests. Lanes grow only when their own pass succeeded.
    /// Throws BadArgument if a lane would pass the model's context; Aborted, BackendError, OutOfMemory.
    void decode(const std::vector<DecodeRequest*>& requests);

private:
    /// Passes of one token a lane have `rows` 1 and several lanes; others have one lane.
    struct Key {
        int lanes, rows, outputs;
        bool operator<(const Key& o) const {
            return std::tie(lanes, rows, outputs) < std::tie(o.lanes, o.rows, o.outputs);
        }
    };
    struct Pass;

    void check(const DecodeRequest& request) const;
    void run(const std::vector<DecodeRequest*>& lanes);
    Pass& pass(const Key& key);
    std::unique_ptr<Pass> build(const Key& key) const;
    void write_inputs(Pass& pass, const Key& key, const std::vector<DecodeRequest*>& lanes) const;
    void read_outputs(const Pass& pass, const Key& key, const std::vector<DecodeRequest*>& lanes) const;

    const Model& model_;
    Executor& executor_;
    std::map<Key, std::unique_ptr<Pass>> passes_;
};

}  // namespace stenod::whisper
