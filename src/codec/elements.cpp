// Element formats one value at a time: the definitions that rows are decoded and encoded by.
#include "codec/elements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "simd/fp8.hpp"

namespace engram {
namespace {

// Rounds a positive magnitude to `bits` fraction bits, nearest even; below 2^lowest the step stays
// that of 2^lowest, as subnormals have it. Exact in binary64.
double rounded_magnitude(double magnitude, int bits, int lowest) {
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, lowest) - bits);
  return std::nearbyint(magnitude / step) * step;
}

}  // namespace

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

std::uint16_t half_from_float(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return sign | 0x7E00;
  const double magnitude = rounded_magnitude(std::fabs(value), 10, -14);
  if (magnitude >= 65536.0) return sign | 0x7C00;
  if (magnitude < std::ldexp(1.0, -14)) {
    return sign | static_cast<std::uint16_t>(std::ldexp(magnitude, 24));
  }
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const int bits = static_cast<int>(std::ldexp(fraction, 11)) - 1024;
  return sign | static_cast<std::uint16_t>((exponent - 1 + 15) << 10 | bits);
}

float float_from_e4m3(std::uint8_t code) {
  return std::bit_cast<float>(simd::fp8_value_bits(code, 127));
}

std::uint8_t e4m3_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80);
  const std::uint32_t magnitude = bits & 0x7FFF'FFFF;
  constexpr std::uint32_t kSmallestNormal = (127 - 6) << 23;  // 2^-6
  if (magnitude > 0x7F80'0000) return sign | 0x7F;
  if (magnitude < kSmallestNormal) {
    // Steps of 2^-9: adding 2^14 leaves exactly those, rounded to nearest even.
    const float steps = std::bit_cast<float>(magnitude) + 16384.0f;
    return sign | static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(steps) & 0xFF);
  }
  // Drop 20 of the 23 fraction bits to nearest even; a carry moves on to the exponent.
  const std::uint32_t rounded = (magnitude + 0x7'FFFF + (magnitude >> 20 & 1)) >> 20;
  return sign |
         static_cast<std::uint8_t>(std::min<std::uint32_t>(rounded - ((127 - 7) << 3), 0x7E));
}

float float_from_e8m0(std::uint8_t byte) {
  return std::bit_cast<float>(simd::fp8_value_bits(0x38, byte));  // 0x38 is 1
}

float float_from_e5m3(std::uint8_t byte) {
  return std::ldexp(static_cast<float>(8 + (byte & 7)), (byte >> 3) - 20);
}

float lloyd4_value(std::uint8_t code, std::uint8_t scale) {
  const float magnitude = kLloyd4[code & 7] * float_from_e5m3(scale);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

}  // namespace engram
