// Element formats one value at a time: the definitions that rows are decoded by.
#include "codec/elements.hpp"

#include <bit>

#include "simd/fp8.hpp"

namespace engram {

float float_from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1F;
  const std::uint32_t fraction = bits & 0x3FF;
  std::uint32_t magnitude = 0;
  if (exponent == 0x1F) {
    magnitude = 0x7F80'0000 | fraction << 13;  // infinity or NaN
  } else if (exponent != 0) {
    magnitude = (exponent + 127 - 15) << 23 | fraction << 13;
  } else if (fraction != 0) {
    // fraction * 2^-24, normal in binary32: its leading one becomes the implicit one.
    const int top = static_cast<int>(std::bit_width(fraction)) - 1;
    magnitude =
        static_cast<std::uint32_t>(top + 127 - 24) << 23 | (fraction << (23 - top) & 0x007F'FFFF);
  }
  return std::bit_cast<float>(sign | magnitude);
}

float float_from_e4m3(std::uint8_t code) {
  return std::bit_cast<float>(simd::fp8_value_bits(code, 127));
}

}  // namespace engram
