// FP8 rows one code at a time: the truth that the vector kernel is tested against.
#include <bit>

#include "base/bfloat16.hpp"
#include "simd/fp8.hpp"

namespace engram::simd {
namespace {

constexpr std::uint32_t kQuietNan = 0x7FC0'0000;
constexpr std::uint32_t kInfinity = 0x7F80'0000;

void store(std::uint32_t bits, std::uint16_t& out) { out = bfloat16_from_float_bits(bits); }
void store(std::uint32_t bits, float& out) { out = std::bit_cast<float>(bits); }

template <typename T>
std::size_t decode_scalar(const Fp8Rows& rows, std::span<T* const> outputs) {
  const std::size_t row_bytes = rows.head_dim + rows.head_dim / kFp8Group;
  std::size_t first_bad = outputs.size();
  for (std::size_t row = outputs.size(); row-- > 0;) {
    const std::uint8_t* codes = rows.packed + row * row_bytes;
    const std::uint8_t* scales = codes + rows.head_dim;
    for (std::size_t i = 0; i < rows.head_dim; ++i) {
      const std::uint32_t bits = fp8_value_bits(codes[i], scales[i / kFp8Group]);
      if ((bits & kInfinity) == kInfinity) first_bad = row;
      store(bits, outputs[row][i]);
    }
  }
  return first_bad;
}

}  // namespace

std::uint32_t fp8_value_bits(std::uint8_t code, std::uint8_t scale) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80) << 24;
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  if ((code & 0x7F) == 0x7F || scale == 0xFF) return sign | kQuietNan;
  // value = significand * 2^power
  const auto significand = static_cast<std::uint32_t>(exponent == 0 ? mantissa : 8 + mantissa);
  const int power = (exponent == 0 ? 1 : exponent) - 10 + scale - 127;
  if (significand == 0) return sign;
  const int top = static_cast<int>(std::bit_width(significand)) - 1;
  const int biased = top + power + 127;
  if (biased >= 255) return sign | kInfinity;
  if (biased >= 1) {
    const std::uint32_t fraction = significand << (23 - top) & 0x007F'FFFF;
    return sign | static_cast<std::uint32_t>(biased) << 23 | fraction;
  }
  // Subnormal: a count of 2^-149. power >= -136, so the shift is to the left and exact.
  return sign | significand << (power + 149);
}

std::size_t decode_fp8_scalar(const Fp8Rows& rows, std::span<std::uint16_t* const> outputs) {
  return decode_scalar(rows, outputs);
}

std::size_t decode_fp8_scalar(const Fp8Rows& rows, std::span<float* const> outputs) {
  return decode_scalar(rows, outputs);
}

}  // namespace engram::simd
