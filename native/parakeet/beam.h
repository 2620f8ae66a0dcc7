#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parakeet/phrases.h"
#include "parakeet/token.h"
#include "parakeet/transducer.h"

namespace stenod::parakeet {

/// Beam search of RNN-T and TDT. See beam.cpp for the method.
class Beam {
public:
    Beam(const HeadWeights& weights, int width, std::shared_ptr<const PhraseTree> phrases = nullptr);

    void feed(const float* frames, int count);
    void ask(std::vector<Query*>& queries);
    void take();
    void finish();
    std::vector<Token> tentative() const;

    std::vector<Token> committed;
};

}  // namespace stenod::parakeet
