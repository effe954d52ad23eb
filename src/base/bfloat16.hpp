// bfloat16 bit patterns: widening is exact, narrowing rounds to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace engram {

inline float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// From the bits of a binary32, so that subnormals survive a flush-to-zero host.
// Adding 0x7FFF plus the lowest kept bit carries exactly when round-to-nearest-even must;
// a NaN is kept quiet instead, since the carry could turn it into infinity.
inline std::uint16_t bfloat16_from_float_bits(std::uint32_t bits) {
  if ((bits & 0x7FFF'FFFFu) > 0x7F80'0000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline std::uint16_t bfloat16_from_float(float value) {
  return bfloat16_from_float_bits(std::bit_cast<std::uint32_t>(value));
}

// Exponent all ones: infinity or NaN.
inline bool bfloat16_is_finite(std::uint16_t bits) { return (bits & 0x7F80) != 0x7F80; }

}  // namespace engram
