// The encoder on small random models: what is encoded in pieces, together or alone is the same, to the bit. That it is
// what the reference gives is tested in Python.

#include "parakeet/encoder.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <optional>
#include <random>

#include "errors.h"
#include "fixture.h"
#include "parakeet/random_head.h"
#include "parakeet/random_model.h"
#include "random_values.h"

using namespace stenod;
using namespace stenod::parakeet;
using namespace stenod::tests;

namespace {

std::vector<float> random_mel(const parakeet::Model& model, int frames, unsigned seed) {
    return random_values(static_cast<size_t>(frames * model.encoder.bands), seed);
}

MelFrames frames_of(const parakeet::Model& model, const std::vector<float>& mel) {
    return {mel.data(), 0, static_cast<int64_t>(mel.size()) / model.encoder.bands, true};
}

/// All frames of a stream at once.
std::vector<float> whole(Encoder& encoder, const parakeet::Model& model, const std::vector<float>& mel,
                         AttentionContext context) {
    std::optional<EncoderCache> cache;
    EncodeRequest request;
    request.mel = frames_of(model, mel);
    request.count = static_cast<int>(frames_at_end(model, request.mel.count));
    if (model.cache_aware) request.cache = &cache.emplace(model, context);
    encoder.encode({&request});
    return request.encoded;
}

/// Appends the next `count` frames of a stream, encoded from no more mel frames than they need.
void extend(Encoder& encoder, const parakeet::Model& model, const std::vector<float>& mel, EncoderCache& cache,
            int count, std::vector<float>& encoded) {
    const MelFrames all = frames_of(model, mel);
    const int64_t from = mel_of_frame(model, cache.frames()).begin;
    const int64_t needed = mel_of_frame(model, cache.frames() + count - 1).end, to = std::min(needed, all.count);
    const bool last = to < needed;
    EncodeRequest request;
    request.mel = {mel.data() + from * model.encoder.bands, from, to - from, last};
    request.count = count;
    request.cache = &cache;
    encoder.encode({&request});
    cache.advance(count);
    encoded.insert(encoded.end(), request.encoded.begin(), request.encoded.end());
}

}  // namespace

TEST_CASE("a cache-aware stream gives what the whole gives, whatever its pieces") {
    for (const bool layer_norm : {true, false}) {
        ParakeetSize size;
        size.layer_norm = size.biases = layer_norm;
        const auto model = random_parakeet(size);
        REQUIRE(model->contexts.size() == 3);
        Encoder encoder(*model, executor());
        std::mt19937 random(3);
        for (const AttentionContext& context : model->contexts) {
            for (const int mel_frames : {1, 8, 9, 200, 415}) {
                const std::vector<float> mel = random_mel(*model, mel_frames, 5);
                const std::vector<float> expected = whole(encoder, *model, mel, context);
                const auto frames = static_cast<int64_t>(expected.size()) / model->encoder.width;
                CHECK(frames == ((mel_frames / 2 + 1) / 2 + 1) / 2 + 1);
                for (const int longest : {context.right + 1, 0}) {  // chunk by chunk, and anyhow
                    EncoderCache cache(*model, context);
                    std::vector<float> encoded;
                    while (cache.frames() < frames) {
                        const int next = longest > 0 ? longest : 1 + static_cast<int>(random() % 3) * cache.chunk();
                        // A chunk's frames see each other: only whole chunks, but the last.
                        const int count = (next + cache.chunk() - 1) / cache.chunk() * cache.chunk();
                        extend(encoder, *model, mel, cache, static_cast<int>(std::min<int64_t>(count, frames - cache.frames())),
                               encoded);
                    }
                    CHECK(encoded == expected);
                }
            }
        }
    }
}

TEST_CASE("what is encoded together is what each gets alone") {
    for (const bool cache_aware : {true, false}) {
        ParakeetSize size;
        size.cache_aware = cache_aware;
        size.layer_norm = !cache_aware;
        const auto model = random_parakeet(size);
        Encoder encoder(*model, executor());
        std::vector<std::vector<float>> mels, expected;
        for (const int frames : {3, 64, 65, 330, 1100}) {
            mels.push_back(random_mel(*model, frames, static_cast<unsigned>(frames)));
            expected.push_back(whole(encoder, *model, mels.back(), model->contexts.front()));
        }
        std::vector<EncodeRequest> requests(mels.size());
        std::vector<EncoderCache> caches;
        for (size_t i = 0; cache_aware && i < mels.size(); ++i) caches.emplace_back(*model, model->contexts.front());
        std::vector<EncodeRequest*> all;
        for (size_t i = 0; i < mels.size(); ++i) {
            requests[i].mel = frames_of(*model, mels[i]);
            requests[i].count = static_cast<int>(frames_at_end(*model, requests[i].mel.count));
            if (cache_aware) requests[i].cache = &caches[i];
            all.push_back(&requests[i]);
        }
        encoder.encode(all);
        for (size_t i = 0; i < mels.size(); ++i) CHECK(requests[i].encoded == expected[i]);
    }
}

#ifndef __SANITIZE_THREAD__  // it cannot see the barriers of ggml, which is built without it
TEST_CASE("what is encoded does not depend on the number of threads") {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        ParakeetSize size;
        size.type = type;
        const auto model = random_parakeet(size);
        Executor three(3);
        Encoder one(*model, executor()), several(*model, three);
        const std::vector<float> mel = random_mel(*model, 500, 2);
        CHECK(whole(one, *model, mel, model->contexts.front()) == whole(several, *model, mel, model->contexts.front()));
    }
}
#endif

TEST_CASE("attention that is limited to more than there is sees all there is") {
    ParakeetSize size;
    size.cache_aware = size.layer_norm = false;
    const auto unlimited = random_parakeet(size);
    size.context_left = size.context_right = 50;
    const auto limited = random_parakeet(size);
    size.context_left = size.context_right = 10;
    const auto local = random_parakeet(size);
    Encoder encoder(*unlimited, executor()), limited_encoder(*limited, executor()), local_encoder(*local, executor());
    const std::vector<float> mel = random_mel(*unlimited, 300, 4);
    const std::vector<float> expected = whole(encoder, *unlimited, mel, {});
    CHECK(greatest_difference(whole(limited_encoder, *limited, mel, {}), expected) < 1e-5);
    CHECK(greatest_difference(whole(local_encoder, *local, mel, {}), expected) > 1e-3);

    // Two blocks of attention reach 20 frames, two convolutions 8, the subsampling one.
    std::vector<float> changed = mel;
    for (size_t i = changed.size() - 8 * static_cast<size_t>(local->encoder.bands); i < changed.size(); ++i) changed[i] += 1;
    const std::vector<float> before = whole(local_encoder, *local, mel, {}), after = whole(local_encoder, *local, changed, {});
    const auto width = static_cast<size_t>(local->encoder.width), frames = before.size() / width;
    const size_t out_of_reach = (frames - 30) * width;
    CHECK(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(out_of_reach), after.begin()));
    CHECK(!std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>((frames - 10) * width), after.begin()));
}

TEST_CASE("a shape that was forgotten is built again") {
    const auto model = random_parakeet();
    Encoder encoder(*model, executor());
    const std::vector<float> mel = random_mel(*model, 900, 6);
    const std::vector<float> expected = whole(encoder, *model, mel, {14, 0});
    for (int frames = 1; frames < 100; ++frames) {
        const std::vector<float> part(mel.begin(), mel.begin() + static_cast<std::ptrdiff_t>(8 * frames * model->encoder.bands));
        const std::vector<float> encoded = whole(encoder, *model, part, {14, 0});
        // All but the last frame know the same; the last one knows that the audio ends.
        CHECK(std::equal(encoded.begin(), encoded.end() - model->encoder.width, expected.begin()));
    }
}

TEST_CASE("a model's tensors must have the shapes that its header promises") {
    for (const bool cache_aware : {true, false}) {
        for (const char* name :
             {"fb", "enc.pre_encode.conv.0.weight", "enc.pre_encode.conv.3.weight", "enc.pre_encode.out.weight",
              "enc.blocks.1.norm_out.bias", "enc.blocks.0.ff1.linear1.weight", "enc.blocks.0.attn.linear_k.weight",
              "enc.blocks.0.attn.pos_bias_u", "enc.blocks.1.conv.depthwise.weight", "enc.blocks.1.conv.bn.weight",
              "pred.embed.weight", "pred.lstm.0.Wh", "pred.lstm.0.bias", "joint.enc.weight", "joint.out.weight",
              "joint.out.bias"}) {
            ParakeetSize size;
            size.cache_aware = size.layer_norm = cache_aware;
            size.misshapen = name;
            size.extra = 1;
            const std::string path = write_random_parakeet(size);
            GgufFile file(path);
            CHECK_THROWS_AS(parakeet::Model{file}, BadModel);
            std::remove(path.c_str());
        }
    }
}
