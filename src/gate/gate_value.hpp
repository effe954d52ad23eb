// One gate value from one dot product.
#pragma once

#include <algorithm>
#include <cmath>

namespace engram {

// sigmoid(copysign(sqrt(max(|dot|, 1e-6)), dot)).
// copysign, not a comparison with zero: a dot of -0.0 gives sigmoid(-0.001), as the reference does.
// Reference: inference/model.py of DeepSeek-V4.1-Flash.
inline float gate_value(float dot) {
  constexpr float kDotMin = 1e-6f;
  const float root = std::copysign(std::sqrt(std::max(std::fabs(dot), kDotMin)), dot);
  return 1.0f / (1.0f + std::exp(-root));
}

}  // namespace engram
