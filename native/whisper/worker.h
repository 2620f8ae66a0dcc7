#pragma once

#include <memory>
#include <vector>

#include "engine.h"
#include "graph/executor.h"
#include "whisper/decoder.h"
#include "whisper/encoder.h"
#include "whisper/model.h"
#include "whisper/pool.h"
#include "whisper/stream.h"

namespace stenod::whisper {

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
    void begin(Stream& stream);
    void decode_steps(const std::vector<Stream*>& streams, std::vector<Outcome>& outcomes);
    void check_mel(int frames) const;

    std::shared_ptr<const Model> model_;
    Executor executor_;
    Encoder encoder_;
    Decoder decoder_;
    Pool<CrossCache> caches_;
    Pool<Lane> lanes_;
    double busy_ = 0;  ///< seconds within `transcribe` and `step`
};

}  // namespace stenod::whisper
