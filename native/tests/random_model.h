#pragma once

#include <memory>
#include <string>

#include "whisper/model.h"

namespace stenod::tests {

/// A multilingual Whisper of two blocks with seeded random weights, written to a temporary file and loaded:
/// its text is nonsense, but always the same.
std::shared_ptr<const whisper::Model> random_model();

/// The file alone, with one tensor's first dimension changed by `extra` (to be refused). Returns the path.
std::string write_random_model(const std::string& misshapen = "", int extra = 0);

}  // namespace stenod::tests
