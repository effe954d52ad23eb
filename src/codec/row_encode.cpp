// Values to stored rows: the quantisers, one row at a time.
#include "codec/row_encode.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "codec/elements.hpp"
#include "codec/mxfp4_encode.hpp"

namespace engram {
namespace {

constexpr std::size_t kGroup = 32;

float largest_magnitude(const float* values) {
  float amax = 0;
  for (std::size_t i = 0; i < kGroup; ++i) amax = std::max(amax, std::fabs(values[i]));
  return amax;
}

// The nearest integer, ties to even, for |x| below 2^22: adding 1.5 * 2^23 leaves no fraction bits.
float nearest(float x) {
  constexpr float kShift = 12582912.0f;
  return (x + kShift) - kShift;
}

// The smallest e with amax <= limit * 2^e, inside the range of a scale. Requires amax > 0.
int exponent_for(double amax, double limit, int smallest) {
  int exponent = std::max(std::ilogb(amax / limit), smallest);
  while (amax > std::ldexp(limit, exponent)) ++exponent;
  return exponent;
}

void encode_fp8_group(const float* values, std::byte* codes, std::byte* scale) {
  const float amax = largest_magnitude(values);
  const int exponent = amax == 0 ? 0 : exponent_for(amax, 448, -127);
  const double inverse = std::ldexp(1.0, -exponent);
  for (std::size_t i = 0; i < kGroup; ++i) {
    codes[i] = static_cast<std::byte>(e4m3_from_float(static_cast<float>(values[i] * inverse)));
  }
  *scale = static_cast<std::byte>(exponent + 127);
}

void encode_int8_group(const float* values, std::byte* codes, std::byte* scale) {
  const float amax = largest_magnitude(values);
  const int exponent = amax == 0 ? 0 : exponent_for(amax, 127, -126);
  const float inverse = std::ldexp(1.0f, -exponent);  // products with it are exact
  for (std::size_t i = 0; i < kGroup; ++i) {
    codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(nearest(values[i] * inverse)));
  }
  store_le(scale, std::ldexp(1.0f, exponent));
}

void store_nibbles(const std::array<int, kGroup>& nibbles, std::byte* codes) {
  for (std::size_t i = 0; i < kGroup / 2; ++i) {
    codes[i] = static_cast<std::byte>((nibbles[2 * i] & 15) | (nibbles[2 * i + 1] & 15) << 4);
  }
}

void encode_int4_group(const float* values, std::byte* codes, std::byte* scale) {
  const float step = largest_magnitude(values) / 7;
  const std::uint8_t byte = e4m3_from_float(step * 8);
  const float rounded = float_from_e4m3(byte) / 8;
  std::array<int, kGroup> nibbles{};
  for (std::size_t i = 0; i < kGroup && rounded > 0; ++i) {
    nibbles[i] = static_cast<int>(std::clamp(std::nearbyint(values[i] / rounded), -8.0f, 7.0f));
  }
  store_nibbles(nibbles, codes);
  *scale = static_cast<std::byte>(byte);
}

// The nearest code of one value under a scale, and its squared error.
int lloyd4_code(double value, double scale, double& error) {
  int best = 0;
  double best_error = value * value;
  for (std::size_t code = 1; code < kLloyd4.size(); ++code) {
    const double difference = std::fabs(value) - kLloyd4[code] * scale;
    if (difference * difference >= best_error) continue;
    best = static_cast<int>(code);
    best_error = difference * difference;
  }
  error += best_error;
  return value < 0 ? best | 8 : best;
}

// The smallest scale byte whose scale is not below amax; the largest there is where none is so.
std::uint8_t lloyd4_scale(float amax) {
  std::uint8_t byte = 0;
  while (byte < 255 && float_from_e5m3(byte) < amax) ++byte;
  return byte;
}

void encode_lloyd4_group(const float* values, std::byte* codes, std::byte* scale) {
  const float amax = largest_magnitude(values);
  std::array<int, kGroup> nibbles{};
  std::uint8_t byte = 0;
  if (amax > 0) {
    byte = lloyd4_scale(amax);
    std::array<int, kGroup> lower_nibbles{};
    double error = 0;
    double lower_error = 0;
    const double upper = float_from_e5m3(byte);
    const double lower = float_from_e5m3(byte == 0 ? 0 : byte - 1);
    for (std::size_t i = 0; i < kGroup; ++i) {
      nibbles[i] = lloyd4_code(values[i], upper, error);
      lower_nibbles[i] = lloyd4_code(values[i], lower, lower_error);
    }
    if (lower_error < error) {
      nibbles = lower_nibbles;
      --byte;
    }
  }
  store_nibbles(nibbles, codes);
  *scale = static_cast<std::byte>(byte);
}

void encode_q8_0_block(const float* values, std::byte* block) {
  const float d = largest_magnitude(values) / 127;
  const float inverse = d == 0 ? 0 : 1 / d;
  store_le(block, half_from_float(d));
  for (std::size_t i = 0; i < kGroup; ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<int>(std::round(values[i] * inverse)));
  }
}

// Low nibbles are columns 0..15, high nibbles 16..31, after the scale byte.
void encode_mxfp4_block(const float* values, const Mxfp4Rule& rule, std::byte* block) {
  std::array<std::byte, kGroup / 2> pairs;
  block[0] = static_cast<std::byte>(encode_mxfp4_group(values, rule, pairs.data()));
  const auto nibble = [&](std::size_t i) {
    return pairs[i / 2] >> (i % 2 == 0 ? 0 : 4) & std::byte{15};
  };
  for (std::size_t i = 0; i < kGroup / 2; ++i) block[1 + i] = nibble(i) | nibble(i + 16) << 4;
}

void encode_group(const RowLayout& layout, const Mxfp4Rule& rule, const float* values,
                  std::size_t group, std::byte* packed) {
  std::byte* scales = packed + layout.code_bytes();
  switch (layout.format) {
    case RowFormat::fp8_e4m3_e8m0:
      return encode_fp8_group(values, packed + kGroup * group, scales + group);
    case RowFormat::int8_f32:
      return encode_int8_group(values, packed + kGroup * group, scales + 4 * group);
    case RowFormat::mxfp4:
      scales[group] =
          static_cast<std::byte>(encode_mxfp4_group(values, rule, packed + kGroup / 2 * group));
      return;
    case RowFormat::int4_e4m3:
      return encode_int4_group(values, packed + kGroup / 2 * group, scales + group);
    case RowFormat::lloyd4_e5m3:
      return encode_lloyd4_group(values, packed + kGroup / 2 * group, scales + group);
    case RowFormat::mxfp4_block:
      return encode_mxfp4_block(values, rule, packed + 17 * group);
    default:
      return encode_q8_0_block(values, packed + 34 * group);
  }
}

}  // namespace

bool can_encode(RowFormat format) {
  switch (format) {
    case RowFormat::fp8_e4m3_e8m0:
    case RowFormat::bf16:
    case RowFormat::f16:
    case RowFormat::f32:
    case RowFormat::int8_f32:
    case RowFormat::mxfp4:
    case RowFormat::int4_e4m3:
    case RowFormat::lloyd4_e5m3:
    case RowFormat::q8_0:
    case RowFormat::mxfp4_block:
      return true;
    default:
      return false;
  }
}

void encode_row(const RowLayout& layout, const Mxfp4Rule& rule, std::span<const float> values,
                std::byte* packed) {
  switch (layout.format) {
    case RowFormat::bf16:
      for (std::size_t i = 0; i < values.size(); ++i) {
        store_le(packed + 2 * i, bfloat16_from_float(values[i]));
      }
      return;
    case RowFormat::f16:
      for (std::size_t i = 0; i < values.size(); ++i) {
        store_le(packed + 2 * i, half_from_float(values[i]));
      }
      return;
    case RowFormat::f32:
      for (std::size_t i = 0; i < values.size(); ++i) store_le(packed + 4 * i, values[i]);
      return;
    default:
      for (std::size_t group = 0; group < values.size() / kGroup; ++group) {
        encode_group(layout, rule, values.data() + kGroup * group, group, packed);
      }
  }
}

}  // namespace engram
