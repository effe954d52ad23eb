// Binary32 to binary16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace engram::simd {

// To nearest, ties to even; too large becomes infinity, a NaN stays one. columns is a multiple of
// 16. Returns whether every result is finite.
bool encode_half(const float* values, std::size_t columns, std::uint16_t* out);

}  // namespace engram::simd
