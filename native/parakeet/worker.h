#pragma once

#include <memory>
#include <vector>

#include "engine.h"
#include "graph/executor.h"
#include "parakeet/encoder.h"
#include "parakeet/model.h"
#include "parakeet/stream.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

class Worker final : public stenod::Worker {
public:
    Worker(std::shared_ptr<const Model> model, int threads);

    std::vector<Transcription> transcribe(const std::vector<Clip>& clips, const TranscribeOptions& options,
                                          const std::function<void(double)>& progress) override;
    std::vector<Outcome> step(const std::vector<stenod::Stream*>& streams) override;

    std::vector<float> encode(const float* mel, int frames, std::optional<int> lookahead_ms) override;
    std::vector<float> decode(const float* mel, int frames, const std::vector<int>& tokens) override;
    std::vector<float> detect_language(const Clip& clip) override;

    Timings timings() const override;
    int threads() const override { return executor_.threads(); }
    const Model& model() const override { return *model_; }

private:
    void advance_streams(const std::vector<Stream*>& streams);
    void hear(const std::vector<Stream*>& streams, const std::vector<float>& projected, bool lookahead);

    std::shared_ptr<const Model> model_;
    Executor executor_;
    Encoder encoder_;
    Head head_;
    double busy_ = 0;  ///< seconds within `transcribe` and `step`
};

}  // namespace stenod::parakeet
