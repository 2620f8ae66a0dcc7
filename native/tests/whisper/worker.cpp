// The whole engine on a small random Whisper: batches, rewinding, splitting, aborting.

#include "whisper/worker.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <thread>

#include "errors.h"
#include "random_model.h"

using namespace stenod;
using namespace stenod::whisper;
using stenod::tests::random_model;

namespace {

std::vector<float> noise(double seconds, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 0.1f);
    std::vector<float> samples(static_cast<size_t>(seconds * whisper::Model::kSampleRate));
    for (float& sample : samples) sample = normal(random);
    return samples;
}

StreamOptions options() {
    StreamOptions chosen;
    chosen.language = "en";
    return chosen;
}

/// All that a stream tells of an utterance.
struct Told {
    std::vector<int> committed;
    std::vector<int> tentative;  ///< of every step, one after the other
    std::vector<float> times;
    bool operator==(const Told& o) const {
        return committed == o.committed && tentative == o.tentative && times == o.times;
    }
};

void note(Told& told, const StepResult& step) {
    for (const TimedToken& token : step.committed) {
        told.committed.push_back(token.id);
        told.times.push_back(token.start);
    }
    for (const TimedToken& token : step.tentative) told.tentative.push_back(token.id);
    told.tentative.push_back(-1);
}

Told step_all(whisper::Worker& worker, whisper::Stream& stream) {
    Told told;
    while (stream.due() > 0) {
        const auto outcome = worker.step({&stream});
        note(told, std::get<StepResult>(outcome[0]));
    }
    return told;
}

Told alone(whisper::Worker& worker, const std::vector<float>& audio, const StreamOptions& chosen = options()) {
    whisper::Stream stream(worker.model(), chosen);
    stream.push(audio.data(), audio.size());
    stream.finish(std::nullopt);
    return step_all(worker, stream);
}

}  // namespace

TEST_CASE("tokens decoded together or one by one have the same logits, and rewinding forgets") {
    const auto model = random_model();
    Executor executor(1);
    Encoder encoder(*model, executor);
    Decoder decoder(*model, executor);
    CrossCache cross(*model);
    Lane lane(*model);
    const int positions = Encoder::kShortest;
    std::vector<float> mel(static_cast<size_t>(2 * positions) * model->mel_bands, 0.1f);
    encoder.encode(mel.data(), positions, cross);

    DecodeRequest together{&lane, &cross, {257, 258, 65, 66, 67}, 0, false, {}, {}};
    decoder.decode({&together});
    CHECK(lane.length == 5);
    for (int attempt = 0; attempt < 2; ++attempt) {
        lane.length = 3;
        for (int i = 3; i < 5; ++i) {
            DecodeRequest single{&lane, &cross, {together.tokens[i]}, 0, false, {}, {}};
            decoder.decode({&single});
            for (int v = 0; v < model->vocabulary; ++v) {
                REQUIRE(single.logits[v] ==
                        doctest::Approx(together.logits[static_cast<size_t>(i) * model->vocabulary + v]).epsilon(0.02));
            }
        }
    }
    lane.length = model->decoder.context;
    DecodeRequest beyond{&lane, &cross, {65}, 0, false, {}, {}};
    CHECK_THROWS_AS(decoder.decode({&beyond}), BadArgument);
}

TEST_CASE("a stream's text depends neither on how its audio was cut nor on its company") {
    whisper::Worker worker(random_model(), 1);
    std::vector<std::vector<float>> audio;
    std::vector<Told> expected;
    for (unsigned i = 0; i < 3; ++i) {
        audio.push_back(noise(1.3 + 0.7 * i, i));
        expected.push_back(alone(worker, audio.back()));
        CHECK(!expected.back().tentative.empty());
    }
    std::vector<std::unique_ptr<whisper::Stream>> streams;
    std::vector<Told> told(3);
    for (int i = 0; i < 3; ++i) streams.push_back(std::make_unique<whisper::Stream>(worker.model(), options()));
    std::mt19937 random(1);
    std::vector<size_t> sent(3, 0);
    while (true) {
        std::vector<stenod::Stream*> due;
        std::vector<int> which;
        for (int i = 0; i < 3; ++i) {
            const size_t count = std::min<size_t>(audio[i].size() - sent[i], random() % 9000);
            if (sent[i] < audio[i].size() && count > 0) {
                streams[i]->push(audio[i].data() + sent[i], count);
                sent[i] += count;
                if (sent[i] == audio[i].size()) streams[i]->finish(std::nullopt);
            }
            if (streams[i]->due() > 0) {
                due.push_back(streams[i].get());
                which.push_back(i);
            }
        }
        const bool all_sent = sent[0] == audio[0].size() && sent[1] == audio[1].size() && sent[2] == audio[2].size();
        if (due.empty() && all_sent) break;
        const auto outcomes = worker.step(due);
        for (size_t j = 0; j < due.size(); ++j) note(told[which[j]], std::get<StepResult>(outcomes[j]));
    }
    for (int i = 0; i < 3; ++i) CHECK(told[i] == expected[i]);
}

#ifndef __SANITIZE_THREAD__  // it cannot see the barriers of ggml, which is built without it
TEST_CASE("a stream's text does not depend on the number of threads") {
    whisper::Worker one(random_model(), 1), three(random_model(), 3);
    const auto audio = noise(1.7, 11);
    CHECK(alone(one, audio) == alone(three, audio));
}
#endif

TEST_CASE("an aborted stream fails alone, and does the step again when it is reset") {
    whisper::Worker worker(random_model(), 1);
    const auto audio = noise(1.5, 5);
    const Told expected = alone(worker, audio);
    whisper::Stream aborted(worker.model(), options()), other(worker.model(), options());
    for (whisper::Stream* stream : {&aborted, &other}) {
        stream->push(audio.data(), audio.size());
        stream->finish(std::nullopt);
    }
    aborted.abort();
    const auto outcomes = worker.step({&aborted, &other});
    CHECK(std::holds_alternative<std::exception_ptr>(outcomes[0]));
    Told told;
    note(told, std::get<StepResult>(outcomes[1]));
    const Told rest = step_all(worker, other);
    told.committed.insert(told.committed.end(), rest.committed.begin(), rest.committed.end());
    told.tentative.insert(told.tentative.end(), rest.tentative.begin(), rest.tentative.end());
    CHECK(told.committed == expected.committed);
    CHECK(told.tentative == expected.tentative);

    aborted.reset(std::nullopt);
    aborted.push(audio.data(), audio.size());
    aborted.finish(std::nullopt);
    CHECK(step_all(worker, aborted) == expected);
}

TEST_CASE("a text that runs in circles is decoded again at a higher temperature") {
    const auto model = random_model();
    const auto vocabulary = static_cast<size_t>(model->vocabulary);
    const auto text_end = vocabulary - 1501;  // timestamps come last
    CrossCache cross(*model);
    cross.positions = 50;
    Pool<Lane> lanes;
    const auto decode = [&](std::vector<float> temperatures) {
        WindowOptions options;
        options.language_token = model->token.language(0);
        options.stop_at_loop = true;
        options.max_tokens = 40;
        options.logprob_threshold = -std::numeric_limits<float>::infinity();
        options.compression_ratio_threshold = std::numeric_limits<float>::infinity();
        options.temperatures = std::move(temperatures);
        WindowDecoding window(*model, cross, 50, lanes, std::move(options));
        std::vector<DecodeRequest*> requests;
        for (; !window.done(); window.advance(), requests.clear()) {
            window.requests(requests);
            for (DecodeRequest* request : requests) {  // a decoder that likes one letter better than all others
                const auto outputs = static_cast<size_t>(request->outputs());
                request->logits.assign(outputs * vocabulary, -20.0f);
                for (size_t row = 0; row < outputs; ++row) {
                    float* logits = &request->logits[row * vocabulary];
                    std::fill_n(logits, text_end, 0.0f);
                    logits[72] = 5.0f;
                }
                request->attention.assign(model->alignment_heads.size() * outputs * cross.positions, 0.01f);
                request->lane->length += static_cast<int>(request->tokens.size());
            }
        }
        return window.result();
    };
    CHECK(decode({0.0f}).looping);
    const WindowResult again = decode({0.0f, 1.0f});
    CHECK(again.temperature == 1.0f);
    CHECK_FALSE(again.looping);
}

/// A second of noise of which something is said.
StreamOptions after_context() {
    StreamOptions chosen = options();
    for (const float sample : noise(1.0, 3)) {
        chosen.context.samples.push_back(static_cast<int16_t>(std::lround(8000 * sample)));
    }
    chosen.context.tokens = {random_model()->token.timestamp_begin, 72, 73, 74};
    return chosen;
}

TEST_CASE("a stream hears its context, and tells nothing of it") {
    whisper::Worker worker(random_model(), 1);
    const auto audio = noise(2.9, 9);
    const Told told = alone(worker, audio, after_context());
    CHECK_FALSE(told == alone(worker, audio));
    for (const float time : told.times) CHECK(time >= 0);

    whisper::Stream stream(worker.model(), after_context());
    for (size_t sent = 0; sent < audio.size(); sent += 3000) {
        stream.push(audio.data() + sent, std::min<size_t>(3000, audio.size() - sent));
        if (stream.due() > 1) worker.step({&stream});
    }
    CHECK(stream.audio_s() == doctest::Approx(2.9));
    stream.reset(std::nullopt);
    stream.push(audio.data(), audio.size());
    stream.finish(std::nullopt);
    CHECK(step_all(worker, stream) == told);
    stream.reset(options());
    stream.push(audio.data(), audio.size());
    stream.finish(std::nullopt);
    CHECK(step_all(worker, stream) == alone(worker, audio));
}

TEST_CASE("a context is heard alone as nothing: the shortest utterances and none at all") {
    whisper::Worker worker(random_model(), 1);
    for (const size_t count : {0, 1, 160, 319, 320, 321, 640, 4000}) {
        CAPTURE(count);
        whisper::Stream stream(worker.model(), after_context());
        const std::vector<float> silence(count, 0.0f);
        stream.push(silence.data(), count);
        stream.finish(std::nullopt);
        StepResult last;
        while (stream.due() > 0) last = std::get<StepResult>(worker.step({&stream})[0]);
        CHECK(last.final);
    }
}

TEST_CASE("a context that cannot be of this model is refused") {
    const auto model = random_model();
    whisper::Stream stream(*model, options());
    for (const int token : {-1, model->vocabulary}) {
        StreamOptions chosen = after_context();
        chosen.context.tokens.push_back(token);
        CHECK_THROWS_AS(stream.reset(chosen), BadArgument);
    }
    StreamOptions chosen = after_context();
    chosen.context.tokens.assign(300, 72);
    CHECK_THROWS_AS(stream.reset(chosen), BadArgument);
    chosen = after_context();
    chosen.context.samples.assign(31 * whisper::Model::kSampleRate, 0);
    CHECK_THROWS_AS(stream.reset(chosen), BadArgument);
}

TEST_CASE("audio may be pushed while another thread steps") {
    whisper::Worker worker(random_model(), 1);
    const auto audio = noise(3.0, 9);
    const Told expected = alone(worker, audio);
    whisper::Stream stream(worker.model(), options());
    std::thread sender([&] {
        for (size_t sent = 0; sent < audio.size(); sent += 800) {
            stream.push(audio.data() + sent, std::min<size_t>(800, audio.size() - sent));
        }
        stream.finish(std::nullopt);
    });
    Told told;
    for (bool done = false; !done;) {
        if (stream.due() == 0) {
            std::this_thread::yield();
            continue;
        }
        const auto outcomes = worker.step({&stream});
        const StepResult step = std::get<StepResult>(outcomes[0]);
        note(told, step);
        done = step.final;
    }
    sender.join();
    CHECK(told == expected);
}

TEST_CASE("transcribing clips together gives what each gives alone") {
    whisper::Worker worker(random_model(), 1);
    const std::vector<std::vector<float>> audio{noise(2, 1), noise(0.01, 2), {}, noise(5, 3)};
    TranscribeOptions chosen;
    chosen.language = "de";
    chosen.temperatures = {0.0f};
    chosen.speech_evidence = false;
    chosen.no_speech_threshold = 2.0f;
    std::vector<Clip> clips;
    for (const auto& samples : audio) clips.push_back({samples.data(), samples.size()});
    const auto together = worker.transcribe(clips, chosen, nullptr);
    for (size_t i = 0; i < clips.size(); ++i) {
        const auto single = worker.transcribe({clips[i]}, chosen, nullptr)[0];
        REQUIRE(together[i].segments.size() == single.segments.size());
        for (size_t j = 0; j < single.segments.size(); ++j) {
            REQUIRE(together[i].segments[j].tokens.size() == single.segments[j].tokens.size());
            CHECK(together[i].segments[j].avg_logprob == single.segments[j].avg_logprob);
        }
    }
}

TEST_CASE("options and shapes that cannot be used are refused") {
    const auto model = random_model();
    StreamOptions unknown;
    unknown.language = "xx";
    CHECK_THROWS_AS(whisper::Stream(*model, unknown), BadArgument);
    StreamOptions step;
    step.step_s = std::nan("");
    CHECK_THROWS_AS(whisper::Stream(*model, step), BadArgument);
    whisper::Worker worker(model, 1);
    CHECK_THROWS_AS(worker.encode(nullptr, 0, std::nullopt), BadArgument);
    for (const char* name : {"decoder.blocks.1.mlp.2.weight", "encoder.conv2.weight", "mel.filters",
                             "decoder.token_embedding.weight", "encoder.ln_post.bias"}) {
        const std::string path = tests::write_random_model(name, 16);
        CHECK_THROWS_AS(load_model(path), BadModel);
        std::remove(path.c_str());
    }
}
