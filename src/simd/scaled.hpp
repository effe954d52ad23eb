// Rows of small integer codes with a scale (and a bias) per group, to bfloat16 or binary32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace engram::simd {

// value[i] = (codes[i] - zero) * scales[i / group], then + biases[i / group] where there are
// biases; each step one binary32 operation. columns and group are multiples of 16.
struct ScaledRow {
  const std::uint8_t* codes = nullptr;
  std::size_t columns = 0;
  std::size_t group = 0;
  float zero = 0;
  const float* scales = nullptr;
  const float* biases = nullptr;
};

// False where a value is not finite, or becomes infinite by rounding to bfloat16: then `out` may
// hold anything, and the caller decodes by definition.
bool decode_scaled(const ScaledRow& row, float* out);
bool decode_scaled(const ScaledRow& row, std::uint16_t* out);

// The same for binary16 values, any alignment.
bool decode_half(const std::byte* values, std::size_t columns, float* out);
bool decode_half(const std::byte* values, std::size_t columns, std::uint16_t* out);

// out[2 i] = table[low nibble of packed[i]], out[2 i + 1] = table[high nibble]. `bytes` is a
// multiple of 8.
using NibbleTable = std::array<std::uint8_t, 16>;
void expand_nibbles(const std::uint8_t* packed, std::size_t bytes, const NibbleTable& table,
                    std::uint8_t* out);

}  // namespace engram::simd
