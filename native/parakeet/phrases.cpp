#include "parakeet/phrases.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <numeric>

#include "errors.h"
#include "model/unicode.h"

namespace stenod::parakeet {

PhraseTree::PhraseTree(const SentencePieces& pieces, const std::vector<std::string>& phrases, float bonus)
    : bonus_(bonus), nodes_(1) {
    for (size_t id = 0; id + 1 < pieces.size(); ++id) in_word_.push_back(pieces.continues_word(static_cast<int>(id)));
    for (const std::string& phrase : phrases) {
        bool spelled = false;
        for (const std::string& variant : {phrase, lower_case(phrase), initial_capital(lower_case(phrase))}) {
            const std::vector<int> tokens = pieces.encode(variant);
            if (tokens.empty()) continue;
            add(tokens);
            spelled = true;
        }
        if (!spelled) {
            throw BadArgument("phrases: '" + phrase + "' is empty, or the model's vocabulary cannot spell it");
        }
    }
    link();
}

void PhraseTree::add(const std::vector<int>& tokens) {
    int node = kRoot;
    for (int token : tokens) {
        const auto [place, is_new] = nodes_[node].next.try_emplace(token, static_cast<int>(nodes_.size()));
        const int next = place->second;
        if (is_new) nodes_.emplace_back();
        node = next;
    }
    nodes_[node].complete = static_cast<int>(tokens.size());
}

/// What the token that leads from `parent` on scores.
float PhraseTree::bonus(int parent) const { return parent == kRoot ? bonus_ / 2 : bonus_; }

/// Breadth first, so that what a node falls back to is complete before it.
void PhraseTree::link() {
    std::vector<std::vector<float>> open(nodes_.size());  // what each token of the path scored, if it is not kept for good
    std::deque<int> waiting{kRoot};
    while (!waiting.empty()) {
        const int parent = waiting.front();
        waiting.pop_front();
        for (const auto& [token, index] : nodes_[parent].next) {
            waiting.push_back(index);
            Node& node = nodes_[index];
            if (parent != kRoot) node.fallback = after(nodes_[parent].fallback, token).second;
            if (node.complete == 0) node.complete = nodes_[node.fallback].complete;
            auto& path = open[index] = open[parent];
            if (!in_word_[token]) std::fill(path.end() - nodes_[parent].complete, path.end(), 0.0f);
            path.push_back(bonus(parent));
            node.held_in_word = std::accumulate(path.begin(), path.end(), 0.0f);
            node.held = std::accumulate(path.begin(), path.end() - node.complete, 0.0f);
        }
    }
}

/// The longest end of the path to `node`, itself included, from which `token` goes on, and where it leads; the root where
/// there is none.
std::pair<int, int> PhraseTree::after(int node, int token) const {
    while (true) {
        const auto found = nodes_[node].next.find(token);
        if (found != nodes_[node].next.end()) return {node, found->second};
        if (node == kRoot) return {kRoot, kRoot};
        node = nodes_[node].fallback;
    }
}

PhraseTree::Step PhraseTree::step(int node, int token) const {
    const auto [from, to] = after(node, token);
    const float gained = to == kRoot ? 0 : bonus(from);
    return {to, from == node ? gained : held(from, token) - held(node, token) + gained};
}

void PhraseTree::favour(int node, float* scores) const {
    if (nodes_[node].held_in_word > 0) {
        for (size_t token = 0; token < in_word_.size(); ++token) scores[token] -= held(node, static_cast<int>(token));
    }
    for (int from = node;; from = nodes_[from].fallback) {
        for (const auto& [token, to] : nodes_[from].next) {
            if (after(node, token).first == from) scores[token] += step(node, token).score + held(node, token);
        }
        if (from == kRoot) return;
    }
}

}  // namespace stenod::parakeet
