// The whole engine on small random Parakeets: cuts, batches, aborting, look-ahead.

#include "parakeet/worker.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "errors.h"
#include "parakeet/random_head.h"
#include "parakeet/random_model.h"

using namespace stenod;
using namespace stenod::tests;

namespace {

std::vector<float> noise(double seconds, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 0.1f);
    std::vector<float> samples(static_cast<size_t>(seconds * Model::kSampleRate));
    float loudness = 1;
    for (size_t i = 0; i < samples.size(); ++i) {
        if (i % 2000 == 0) loudness = static_cast<float>(random() % 100) / 50;
        samples[i] = loudness * normal(random);
    }
    return samples;
}

/// Windows short enough for the tests' audio.
StreamOptions options() {
    StreamOptions chosen;
    chosen.left_s = 0.8;
    chosen.chunk_s = 0.4;
    chosen.lookahead_s = 0.24;
    return chosen;
}

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

void step_all(Worker& worker, Stream& stream, Told& told) {
    while (stream.due() > 0) note(told, std::get<StepResult>(worker.step({&stream})[0]));
}

Told alone(Worker& worker, const std::vector<float>& audio, const StreamOptions& chosen) {
    const auto stream = worker.model().make_stream(chosen);
    stream->push(audio.data(), audio.size());
    stream->finish(std::nullopt);
    Told told;
    step_all(worker, *stream, told);
    return told;
}

std::vector<ParakeetSize> kinds() {
    std::vector<ParakeetSize> sizes;
    for (const bool cache_aware : {true, false}) {
        for (const char* head : {"tdt", "rnnt", "ctc"}) {
            ParakeetSize size;
            size.cache_aware = size.layer_norm = cache_aware;
            size.head = head;
            sizes.push_back(size);
        }
    }
    return sizes;
}

}  // namespace

TEST_CASE("a stream's text depends neither on how its audio was cut nor on its company") {
    for (const ParakeetSize& size : kinds()) {
        CAPTURE(size.head);
        const auto model = random_parakeet(size);
        const auto worker = model->make_worker(1);
        std::vector<std::vector<float>> audio;
        std::vector<Told> expected;
        for (unsigned i = 0; i < 3; ++i) {
            audio.push_back(noise(1.3 + 0.7 * i, i));
            expected.push_back(alone(*worker, audio.back(), options()));
            CHECK(!expected.back().committed.empty());
        }
        std::vector<std::unique_ptr<Stream>> streams;
        std::vector<Told> told(3);
        for (int i = 0; i < 3; ++i) streams.push_back(model->make_stream(options()));
        std::mt19937 random(1);
        std::vector<size_t> sent(3, 0);
        while (true) {
            std::vector<Stream*> due;
            std::vector<size_t> which;
            bool all_sent = true;
            for (size_t i = 0; i < 3; ++i) {
                const size_t count = std::min<size_t>(audio[i].size() - sent[i], random() % 9000);
                if (count > 0) {
                    streams[i]->push(audio[i].data() + sent[i], count);
                    sent[i] += count;
                    if (sent[i] == audio[i].size()) streams[i]->finish(std::nullopt);
                }
                all_sent = all_sent && sent[i] == audio[i].size();
                if (streams[i]->due() > 0) {
                    due.push_back(streams[i].get());
                    which.push_back(i);
                }
            }
            if (due.empty() && all_sent) break;
            const auto outcomes = worker->step(due);
            for (size_t j = 0; j < due.size(); ++j) note(told[which[j]], std::get<StepResult>(outcomes[j]));
        }
        for (size_t i = 0; i < 3; ++i) CHECK(told[i] == expected[i]);
    }
}

TEST_CASE("a cache-aware stream finds the same tokens whatever its steps, and as a transcription does") {
    ParakeetSize size;
    const auto model = random_parakeet(size);
    const auto worker = model->make_worker(1);
    const auto audio = noise(4.1, 8);
    const Told expected = alone(*worker, audio, {});
    for (const double factor : {3.0, 100.0}) {
        const auto stream = model->make_stream({});
        stream->coarsen(factor);
        CHECK(stream->step_s() == doctest::Approx(factor * 0.32));
        stream->push(audio.data(), audio.size());
        stream->finish(std::nullopt);
        Told told;
        step_all(*worker, *stream, told);
        CHECK(told.committed == expected.committed);
        CHECK(told.times == expected.times);
    }
    const auto transcription = worker->transcribe({{audio.data(), audio.size()}}, {}, nullptr)[0];
    std::vector<int> transcribed;
    for (const Segment& segment : transcription.segments) {
        for (const TimedToken& token : segment.tokens) transcribed.push_back(token.id);
    }
    CHECK(transcribed == expected.committed);
}

TEST_CASE("look-ahead is chosen among those that the model was trained with") {
    const auto model = random_parakeet();
    const auto step_of = [&](std::optional<int> lookahead_ms) {
        StreamOptions chosen;
        chosen.lookahead_ms = lookahead_ms;
        return model->make_stream(chosen)->step_s();
    };
    CHECK(step_of(std::nullopt) == doctest::Approx(0.32));
    CHECK(step_of(240) == doctest::Approx(0.32));
    CHECK(step_of(5000) == doctest::Approx(0.32));
    CHECK(step_of(239) == doctest::Approx(0.16));
    CHECK(step_of(79) == doctest::Approx(0.08));
    CHECK(step_of(0) == doctest::Approx(0.08));
}

TEST_CASE("what a window's look-ahead says is tentative, and a short utterance is decoded whole") {
    ParakeetSize size;
    size.cache_aware = size.layer_norm = false;
    const auto model = random_parakeet(size);
    const auto worker = model->make_worker(1);
    const auto audio = noise(2.0, 3);
    const auto stream = model->make_stream(options());
    stream->push(audio.data(), audio.size());
    const StepResult first = std::get<StepResult>(worker->step({stream.get()})[0]);
    CHECK(first.audio_s == doctest::Approx(0.64));
    REQUIRE(!first.tentative.empty());
    CHECK(first.tentative.back().start >= 0.4f);

    StreamOptions wide;  // 2 s and 2 s of look-ahead
    const auto whole = worker->transcribe({{audio.data(), audio.size()}}, {}, nullptr)[0];
    std::vector<int> transcribed;
    for (const Segment& segment : whole.segments) {
        for (const TimedToken& token : segment.tokens) transcribed.push_back(token.id);
    }
    CHECK(alone(*worker, audio, wide).committed == transcribed);
}

TEST_CASE("windows are encoded as if they were all there is, and the search goes on from chunk to chunk") {
    for (const char* head : {"tdt", "rnnt", "ctc"}) {
        ParakeetSize size;
        size.cache_aware = size.layer_norm = false;
        size.head = head;
        const auto model = random_parakeet(size);
        const auto audio = noise(2.3, 13);
        constexpr int left = 10, chunk = 5, lookahead = 3, hop = 1280;  // `options`, in frames
        const auto total = static_cast<int>(parakeet::frames_at_end(*model, static_cast<int64_t>(audio.size()) / 160));
        Executor& one_thread = executor();
        parakeet::Encoder encoder(*model, one_thread);
        parakeet::Head searched(model->head, one_thread);
        std::vector<float> heard;
        for (int next = 0; next < total;) {
            const bool last = static_cast<size_t>((next + chunk + lookahead) * hop) > audio.size();
            const int first = std::max(0, next - left), end = last ? total : next + chunk;
            const size_t samples = last ? audio.size() - static_cast<size_t>(first * hop)
                                        : static_cast<size_t>((end + lookahead - first) * hop);
            const std::vector<float> rows = parakeet::features(*model, {audio.data() + first * hop, samples});
            parakeet::EncodeRequest request;
            request.mel = {rows.data(), 0, static_cast<int64_t>(samples) / 160, true};
            request.count = static_cast<int>(parakeet::frames_at_end(*model, request.mel.count));
            encoder.encode({&request});
            const auto width = static_cast<std::ptrdiff_t>(model->encoder.width);
            heard.insert(heard.end(), request.encoded.begin() + (next - first) * width,
                         request.encoded.begin() + (end - first) * width);
            next = end;
        }
        parakeet::Search search(model->head, {});
        const std::vector<float> projected = searched.project(heard.data(), total);
        parakeet::advance(searched, {{&search, projected.data(), total}});
        search.finish();
        std::vector<int> expected;
        for (const parakeet::Token& token : search.take_committed()) {
            if (!model->pieces.is_end_of_utterance(token.id)) expected.push_back(token.id);
        }
        const auto worker = model->make_worker(1);
        CHECK(!expected.empty());
        CHECK(alone(*worker, audio, options()).committed == expected);
    }
}

TEST_CASE("an utterance that ends before what was heard keeps what was committed, and drops the rest") {
    for (const bool cache_aware : {true, false}) {
        ParakeetSize size;
        size.cache_aware = size.layer_norm = cache_aware;
        const auto model = random_parakeet(size);
        const auto worker = model->make_worker(1);
        const auto audio = noise(3.0, 21);
        const auto stream = model->make_stream(options());
        stream->push(audio.data(), audio.size());
        Told told;
        step_all(*worker, *stream, told);
        const size_t committed = told.committed.size();
        const float last = told.times.back();
        const auto end = static_cast<size_t>((last + 0.08) * Model::kSampleRate);
        stream->finish(end);
        CHECK(stream->due() == 1);
        step_all(*worker, *stream, told);
        CHECK(stream->due() == 0);
        CHECK(told.committed.size() >= committed);
        for (const float start : told.times) CHECK(start < last + 0.08f);
    }
}

TEST_CASE("an aborted stream fails alone, and does the step again when it is reset") {
    for (const ParakeetSize& size : kinds()) {
        const auto model = random_parakeet(size);
        const auto worker = model->make_worker(1);
        const auto audio = noise(1.5, 5);
        const Told expected = alone(*worker, audio, options());
        const auto aborted = model->make_stream(options()), other = model->make_stream(options());
        for (Stream* stream : {aborted.get(), other.get()}) {
            stream->push(audio.data(), audio.size());
            stream->finish(std::nullopt);
        }
        aborted->abort();
        const auto outcomes = worker->step({aborted.get(), other.get()});
        CHECK(std::holds_alternative<std::exception_ptr>(outcomes[0]));
        Told told;
        note(told, std::get<StepResult>(outcomes[1]));
        step_all(*worker, *other, told);
        CHECK(told == expected);

        aborted->reset(std::nullopt);
        aborted->push(audio.data(), audio.size());
        aborted->finish(std::nullopt);
        Told again;
        step_all(*worker, *aborted, again);
        CHECK(again == expected);
    }
}

TEST_CASE("a step that is aborted at any point can be done again") {
    const auto model = random_parakeet();
    const auto worker = model->make_worker(1);
    const auto audio = noise(2.0, 6);
    const Told expected = alone(*worker, audio, {});
    std::mt19937 random(4);
    for (int round = 0; round < 20; ++round) {
        const auto stream = model->make_stream({});
        stream->push(audio.data(), audio.size());
        stream->finish(std::nullopt);
        Told told;
        while (stream->due() > 0) {
            std::thread aborter([&, pause = random() % 300] {
                std::this_thread::sleep_for(std::chrono::microseconds(pause));
                worker->abort();
            });
            const auto outcome = worker->step({stream.get()})[0];
            aborter.join();
            if (const auto* step = std::get_if<StepResult>(&outcome)) note(told, *step);
        }
        CHECK(told == expected);
    }
}

TEST_CASE("audio may be pushed while another thread steps") {
    const auto model = random_parakeet();
    const auto worker = model->make_worker(1);
    const auto audio = noise(3.0, 9);
    const Told expected = alone(*worker, audio, {});
    const auto stream = model->make_stream({});
    std::thread sender([&] {
        for (size_t sent = 0; sent < audio.size(); sent += 800) {
            stream->push(audio.data() + sent, std::min<size_t>(800, audio.size() - sent));
        }
        stream->finish(std::nullopt);
    });
    Told told;
    for (bool done = false; !done;) {
        if (stream->due() == 0) {
            std::this_thread::yield();
            continue;
        }
        const StepResult step = std::get<StepResult>(worker->step({stream.get()})[0]);
        note(told, step);
        done = step.final;
    }
    sender.join();
    CHECK(told == expected);
}

TEST_CASE("transcribing clips together gives what each gives alone") {
    for (const ParakeetSize& size : kinds()) {
        const auto model = random_parakeet(size);
        const auto worker = model->make_worker(1);
        const std::vector<std::vector<float>> audio{noise(2, 1), noise(0.005, 2), {}, noise(5, 3), noise(0.05, 4)};
        std::vector<Clip> clips;
        for (const auto& samples : audio) clips.push_back({samples.data(), samples.size()});
        double done = 0;
        const auto together = worker->transcribe(clips, {}, [&](double seconds) { done = seconds; });
        CHECK(done == doctest::Approx(7.055));
        for (size_t i = 0; i < clips.size(); ++i) {
            const auto single = worker->transcribe({clips[i]}, {}, nullptr)[0];
            REQUIRE(together[i].segments.size() == single.segments.size());
            for (size_t j = 0; j < single.segments.size(); ++j) {
                REQUIRE(together[i].segments[j].tokens.size() == single.segments[j].tokens.size());
                CHECK(together[i].segments[j].avg_logprob == single.segments[j].avg_logprob);
            }
        }
        CHECK(together[2].no_speech);
    }
}

TEST_CASE("options and streams that cannot be used are refused") {
    ParakeetSize size;
    size.cache_aware = size.layer_norm = false;
    const auto model = random_parakeet(size), other = random_parakeet();
    const auto refused = [&](auto&& change) {
        StreamOptions chosen;
        change(chosen);
        CHECK_THROWS_AS(model->make_stream(chosen), BadArgument);
    };
    refused([](StreamOptions& chosen) { chosen.translate = true; });
    refused([](StreamOptions& chosen) { chosen.beam_size = 0; });
    refused([](StreamOptions& chosen) { chosen.phrases = {"\xE4\xBD\xA0"}; });
    refused([](StreamOptions& chosen) { chosen.chunk_s = std::nan(""); });
    refused([](StreamOptions& chosen) { chosen.left_s = -1; });
    refused([](StreamOptions& chosen) { chosen.lookahead_ms = -1; });
    const auto worker = model->make_worker(1);
    const auto stranger = other->make_stream({});
    CHECK_THROWS_AS(worker->step({stranger.get()}), BadArgument);
    const auto early = model->make_stream({});
    CHECK(std::holds_alternative<std::exception_ptr>(worker->step({early.get()})[0]));
    CHECK_THROWS_AS(worker->decode(nullptr, 0, {}), BadArgument);
    early->finish(std::nullopt);
    CHECK_THROWS_AS(early->finish(std::nullopt), BadArgument);
    CHECK_THROWS_AS(early->push(nullptr, 0), BadArgument);
    CHECK(std::get<StepResult>(worker->step({early.get()})[0]).no_speech);
}
