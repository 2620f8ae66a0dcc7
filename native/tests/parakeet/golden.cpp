#include <algorithm>

#include <doctest/doctest.h>

#include "fixture.h"
#include "graph/layers.h"
#include "parakeet/search.h"
#include "random_head.h"

using namespace stenod;
using namespace stenod::parakeet;
using namespace stenod::tests;

namespace {

/// One of the transducers in data/parakeet_head.gguf, and what NeMo found with it.
class Golden {
public:
    Golden(GgufFile& file, const std::string& name) : file_(file), prefix_(name + ".") {
        context_.reset(ggml_init({size_t{4} << 20, nullptr, false}));
        const auto shape = [&](const std::string& tensor) { return file.tensor(prefix_ + tensor).shape; };
        weights.encoder_width = static_cast<int>(shape("joint.enc.weight")[0]);
        weights.joint_width = static_cast<int>(shape("joint.enc.weight")[1]);
        weights.hidden = static_cast<int>(shape("pred.embed.weight")[0]);
        weights.tokens = static_cast<int>(shape("pred.embed.weight")[1]) - 1;
        weights.max_symbols = static_cast<int>(file.u32(prefix_ + "max_symbols"));
        if (file.has(prefix_ + "durations")) weights.durations = file.i32_array(prefix_ + "durations");
        weights.embedding = tensor("pred.embed.weight");
        for (uint32_t i = 0; i < file.u32(prefix_ + "layers"); ++i) {
            const std::string layer = "pred.lstm." + std::to_string(i) + ".";
            weights.lstm.push_back({tensor(layer + "Wx"), tensor(layer + "Wh"), tensor(layer + "bias")});
        }
        weights.encoder = tensor("joint.enc.weight");
        weights.encoder_bias = tensor("joint.enc.bias");
        weights.predictor = tensor("joint.pred.weight");
        weights.predictor_bias = tensor("joint.pred.bias");
        weights.output = tensor("joint.out.weight", kRowTile);
        weights.output_bias = tensor("joint.out.bias", kRowTile);
        frames = read("frames");
        logits = read("logits");
    }

    std::vector<int32_t> lists(const std::string& key, size_t index) const {
        const auto& all = file_.i32_array(prefix_ + key);
        const auto& lengths = file_.i32_array(prefix_ + key + ".lengths");
        auto first = all.begin();
        for (size_t i = 0; i < index; ++i) first += lengths[i];
        return {first, first + lengths[index]};
    }
    const std::vector<int32_t>& lengths() const { return file_.i32_array(prefix_ + "lengths"); }

    HeadWeights weights;
    std::vector<float> frames;  ///< [streams][longest][encoder_width]
    std::vector<float> logits;

private:
    std::vector<float> read(const std::string& name) {
        std::vector<float> values(file_.tensor(prefix_ + name).bytes / sizeof(float));
        file_.read_tensor(prefix_ + name, values.data(), values.size() * sizeof(float));
        return values;
    }
    /// The tensor, its last dimension padded with zeros to a multiple of `tile`.
    ggml_tensor* tensor(const std::string& name, int64_t tile = 1) {
        const TensorInfo& info = file_.tensor(prefix_ + name);
        std::array<int64_t, 4> shape = info.shape;
        int64_t& rows = shape[info.n_dims - 1];
        rows = (rows + tile - 1) / tile * tile;
        ggml_tensor* tensor = ggml_new_tensor(context_.get(), GGML_TYPE_F32, info.n_dims, shape.data());
        std::fill_n(static_cast<float*>(tensor->data), ggml_nelements(tensor), 0.0f);
        file_.read_tensor(prefix_ + name, tensor->data, info.bytes);
        return tensor;
    }

    GgufFile& file_;
    std::string prefix_;
    ContextPtr context_;
};

}  // namespace

TEST_CASE("logits, tokens, frames and durations are NeMo's") {
    GgufFile file(PARAKEET_HEAD);
    for (const std::string name : {"tdt", "capped", "rnnt"}) {
        CAPTURE(name);
        const Golden golden(file, name);
        const HeadWeights& weights = golden.weights;
        Head head(weights, executor());
        const size_t streams = golden.lengths().size(), stride = golden.frames.size() / streams;
        std::vector<Search> searches(streams, Search(weights, {}));
        std::vector<std::vector<float>> projected;
        std::vector<SearchStep> steps;
        for (size_t i = 0; i < streams; ++i) {
            projected.push_back(head.project(golden.frames.data() + i * stride, golden.lengths()[i]));
            steps.push_back({&searches[i], projected.back().data(), golden.lengths()[i]});
        }
        advance(head, steps);
        for (size_t i = 0; i < streams; ++i) {
            std::vector<int32_t> tokens, at, lasting;
            for (const Token& token : searches[i].take_committed()) {
                tokens.push_back(token.id);
                at.push_back(static_cast<int32_t>(token.frame));
                lasting.push_back(token.duration);
            }
            CHECK(tokens == golden.lists("tokens", i));
            CHECK(at == golden.lists("at", i));
            if (!weights.durations.empty()) CHECK(lasting == golden.lists("lasting", i));
        }

        std::vector<float> logits;
        std::vector<int32_t> fed = golden.lists("tokens", 0);
        fed.insert(fed.begin(), weights.blank());
        Query query;
        query.frame = projected[0].data();
        for (int32_t token : fed) {
            query.token = token;
            head.answer({&query});
            logits.insert(logits.end(), query.logits, query.logits + weights.outputs());
        }
        CHECK(greatest_difference(logits, golden.logits) < 1e-5);
    }
}
