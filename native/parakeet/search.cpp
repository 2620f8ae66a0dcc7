#include "parakeet/search.h"

#include <algorithm>
#include <string>
#include <utility>

#include "errors.h"

namespace stenod::parakeet {

namespace {

constexpr int kWidestBeam = 16;

std::variant<Greedy, Beam, Ctc> make_search(const HeadWeights& weights, const SearchOptions& options) {
    if (options.beam < 1 || options.beam > kWidestBeam) {
        throw BadArgument("beam: " + std::to_string(options.beam) + ", expected 1 to " + std::to_string(kWidestBeam));
    }
    if (weights.is_ctc()) {
        if (options.beam > 1) throw BadArgument("beam: this model has a CTC head, which is searched greedily only");
        if (options.phrases) throw BadArgument("phrases: this model has a CTC head, which cannot favour any");
        return Ctc(weights);
    }
    if (options.beam > 1) return Beam(weights, options.beam, options.phrases);
    return Greedy(weights, options.phrases);
}

}  // namespace

Search::Search(const HeadWeights& weights, const SearchOptions& options) : search_(make_search(weights, options)) {}

std::vector<Token> Search::take_committed() {
    return std::visit([](auto& search) { return std::exchange(search.committed, {}); }, search_);
}

std::vector<Token> Search::tentative() const {
    if (const auto* beam = std::get_if<Beam>(&search_)) return beam->tentative();
    if (const auto* ctc = std::get_if<Ctc>(&search_)) return ctc->tentative();
    return {};
}

void Search::finish() {
    if (auto* beam = std::get_if<Beam>(&search_)) beam->finish();
    if (auto* ctc = std::get_if<Ctc>(&search_)) ctc->finish();
}

void Search::feed(const float* frames, int count) {
    if (auto* greedy = std::get_if<Greedy>(&search_)) greedy->feed(frames, count);
    if (auto* beam = std::get_if<Beam>(&search_)) beam->feed(frames, count);
    if (auto* ctc = std::get_if<Ctc>(&search_)) ctc->hear(frames, count);
}

void Search::ask(std::vector<Query*>& queries) {
    if (auto* greedy = std::get_if<Greedy>(&search_)) greedy->ask(queries);
    if (auto* beam = std::get_if<Beam>(&search_)) beam->ask(queries);
}

void Search::take() {
    if (auto* greedy = std::get_if<Greedy>(&search_)) greedy->take();
    if (auto* beam = std::get_if<Beam>(&search_)) beam->take();
}

/// Label looping (Bataev et al., "Label-Looping: Highly Efficient Decoding for Transducers", 2024): first all streams look for their
/// next token, which takes the joint network only; when each has one, the predictor moves on for all of them at once.
void advance(Head& head, const std::vector<SearchStep>& steps) {
    std::vector<Search> searches;
    for (const SearchStep& step : steps) {
        searches.push_back(*step.search);
        searches.back().feed(step.frames, step.count);
    }
    std::vector<Query*> queries, predicting;
    std::vector<Search*> asked, waiting;
    while (true) {
        queries.clear();
        predicting.clear();
        asked.clear();
        waiting.clear();
        for (Search& search : searches) {
            std::vector<Query*> own;
            search.ask(own);
            if (own.empty()) continue;
            const bool seeking = std::all_of(own.begin(), own.end(),
                                             [](const Query* query) { return query->token == Query::kNone; });
            auto& list = seeking ? queries : predicting;
            list.insert(list.end(), own.begin(), own.end());
            (seeking ? asked : waiting).push_back(&search);
        }
        if (asked.empty()) {
            queries.swap(predicting);
            asked.swap(waiting);
        }
        if (asked.empty()) break;
        head.answer(queries);
        for (Search* search : asked) search->take();
    }
    for (size_t i = 0; i < steps.size(); ++i) *steps[i].search = std::move(searches[i]);
}

}  // namespace stenod::parakeet
