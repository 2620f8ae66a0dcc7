#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/sentence_pieces.h"

namespace stenod::parakeet {

/// Words and phrases to be favoured, as an automaton over tokens (Aho and Corasick, "Efficient String Matching", 1975).
///
/// Every token that carries a phrase on scores a bonus, the first one half of it: a beginning alone says little, and most
/// of what is heard wrongly for the sake of a phrase begins one. Where the phrase breaks off, what it had scored is taken
/// back; where it is complete, that is kept, but taken back if the word goes on ("stop" is not to favour "stopped").
/// Immutable; shared by searches.
class PhraseTree {
public:
    /// Each phrase is favoured as given, in lower case and with an initial capital, as far as the vocabulary can spell
    /// it. `bonus` is added to the log-probability of a token, in natural logarithms. Throws BadArgument naming a phrase
    /// that is empty or cannot be spelled in any of the three ways.
    PhraseTree(const SentencePieces& pieces, const std::vector<std::string>& phrases, float bonus = kBonus);

    /// Measured: twice as much is heard even where something else was said.
    static constexpr float kBonus = 1.0f;

    static constexpr int kRoot = 0;

    struct Step {
        int node;     ///< after the token
        float score;  ///< bonus of the token, less what is taken back
    };
    /// Follows `token` from `node`.
    Step step(int node, int token) const;

    /// Adds to the scores of all tokens (without blank) what `step` gives for them.
    void favour(int node, float* scores) const;

    /// What is taken back, as a negative number, if nothing follows `node`.
    float leave(int node) const { return -nodes_[node].held; }

private:
    struct Node {
        std::unordered_map<int, int> next;
        int fallback = kRoot;    ///< the longest end of the path that begins a phrase, too
        int complete = 0;        ///< tokens of the longest phrase that ends here
        float held = 0;          ///< taken back if the phrase breaks off and a word begins, or nothing follows
        float held_in_word = 0;  ///< taken back if the phrase breaks off within a word
    };
    void add(const std::vector<int>& tokens);
    void link();
    float bonus(int parent) const;
    std::pair<int, int> after(int node, int token) const;
    float held(int node, int token) const {
        return in_word_[token] ? nodes_[node].held_in_word : nodes_[node].held;
    }

    float bonus_;
    std::vector<Node> nodes_;
    std::vector<bool> in_word_;  ///< by token: it continues the word before it
};

}  // namespace stenod::parakeet
