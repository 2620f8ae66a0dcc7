#pragma once

#include <vector>

#include "engine.h"
#include "parakeet/model.h"

namespace stenod::parakeet {

/// Tokens as segments, which end where a sentence ends or before a pause.
std::vector<Segment> segments_of(const Model& model, const std::vector<TimedToken>& tokens);

}  // namespace stenod::parakeet
