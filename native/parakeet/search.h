#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "parakeet/beam.h"
#include "parakeet/ctc.h"
#include "parakeet/greedy.h"
#include "parakeet/phrases.h"
#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

struct SearchStep;

struct SearchOptions {
    int beam = 1;                               ///< hypotheses kept; 1 is the greedy search
    std::shared_ptr<const PhraseTree> phrases;  ///< to be favoured; null: none
};

/// One stream's search for its tokens: a value. To hear frames that are to be heard again (a look-ahead), advance a copy.
///
/// Whatever must outlive a chunk is in here: the predictor's state, the last token, a jump that reaches beyond the
/// frames, and the beam. Frames count from the stream's first, so that the tokens do not depend on how the frames were cut.
class Search {
public:
    /// Throws BadArgument naming the option. A beam or phrases are refused for CTC.
    Search(const HeadWeights& weights, const SearchOptions& options);

    /// Takes the tokens that are certain since the last call, in order. Greedily all are.
    std::vector<Token> take_committed();
    /// The best hypothesis' tokens beyond those.
    std::vector<Token> tentative() const;
    /// Nothing more comes: the best hypothesis is certain.
    void finish();

private:
    friend void advance(Head& head, const std::vector<SearchStep>& steps);
    void feed(const float* frames, int count);
    void ask(std::vector<Query*>& queries);
    void take();

    std::variant<Greedy, Beam, Ctc> search_;
};

/// Frames for one search.
struct SearchStep {
    Search* search;
    const float* frames;  ///< as projected by `Head::project`: [count][frame_width]
    int count;
};

/// Advances searches (each at most once) over their frames in common passes; what one finds does not depend on the others.
/// On an exception all searches are as before. Throws Aborted, BackendError, OutOfMemory.
void advance(Head& head, const std::vector<SearchStep>& steps);

}  // namespace stenod::parakeet
