#pragma once

#include <cstdint>

namespace stenod {

/// `count` scores become exp((score - greatest) * scale); returns their sum, added up in one order.
float exponentials(float* scores, int64_t count, float scale);

}  // namespace stenod
