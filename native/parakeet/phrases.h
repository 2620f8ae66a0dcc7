#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "model/sentence_pieces.h"

namespace stenod::parakeet {

/// Words and phrases that are favoured in a search: an automaton over tokens (Aho and Corasick, "Efficient string
/// matching", 1975), as in the shallow fusion of contextual phrases. Each token that continues a phrase scores a bonus; what a
/// phrase scored is taken back where it breaks off, and kept where it is complete. Immutable, shared by searches.
class PhraseTree {
public:
    /// Each phrase is favoured as given, in lower case and with an initial capital, as far as the vocabulary can spell
    /// it. `bonus` is added to the log-probability of a token. Throws BadArgument naming an empty phrase, or one that
    /// cannot be spelled.
    PhraseTree(const SentencePieces& pieces, const std::vector<std::string>& phrases, float bonus);

    static constexpr int kRoot = 0;

    struct Step {
        int node;     ///< after the token
        float bonus;  ///< of the token; negative where a phrase breaks off
    };
    /// Follows `token` from `node`.
    Step step(int node, int token) const;

    /// Tokens that continue a phrase from `node`, or from where it could fall back to, with their bonus.
    const std::vector<std::pair<int, float>>& continuations(int node) const;

private:
    struct Node {
        std::unordered_map<int, int> next;
        int fallback = kRoot;
        float score = 0;  ///< of an unfinished phrase up to here
        bool end = false;
    };
    std::vector<Node> nodes_;
};

}  // namespace stenod::parakeet
