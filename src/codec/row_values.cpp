// One stored row to binary32, by the definition of its format.
#include "codec/row_values.hpp"

#include <cstring>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "codec/block_values.hpp"
#include "codec/elements.hpp"
#include "simd/scaled.hpp"

namespace engram {
namespace {

std::uint8_t byte_at(const std::byte* bytes, std::size_t i) {
  return static_cast<std::uint8_t>(bytes[i]);
}

// Element i of a row of 4-bit codes: the even column is in the low nibble.
std::uint8_t nibble(const std::byte* codes, std::size_t i) {
  return byte_at(codes, i / 2) >> (i % 2 == 0 ? 0 : 4) & 0x0F;
}

// Code i of `bits` bits in a little-endian bit string. Reads no byte beyond the code's own.
std::uint32_t code_bits(const std::byte* codes, std::size_t i, std::size_t bits) {
  const std::size_t first = i * bits;
  const std::size_t shift = first % 8;
  std::uint32_t word = byte_at(codes, first / 8);
  if (shift + bits > 8) word |= static_cast<std::uint32_t>(byte_at(codes, first / 8 + 1)) << 8;
  return word >> shift & ((1u << bits) - 1);
}

// q * s / 8 of a two's complement code of `bits` bits; exact.
float integer_e4m3(std::uint32_t code, unsigned bits, std::uint8_t scale) {
  const auto half = static_cast<int>(1u << (bits - 1));
  const int q =
      static_cast<int>(code) < half ? static_cast<int>(code) : static_cast<int>(code) - 2 * half;
  return static_cast<float>(q) * float_from_e4m3(scale) / 8;
}

float affine_parameter(const RowLayout& layout, const std::byte* bytes, std::size_t group) {
  return layout.wide_scales ? load_le<float>(bytes + 4 * group)
                            : float_from_bfloat16(load_le<std::uint16_t>(bytes + 2 * group));
}

// The value of column i. Requires a format that does not expand to FP8.
float value_at(const RowLayout& layout, const std::byte* packed, std::size_t i) {
  const std::byte* scales = packed + layout.code_bytes();
  const std::size_t group = i / layout.group;
  switch (layout.format) {
    case RowFormat::bf16:
      return float_from_bfloat16(load_le<std::uint16_t>(packed + 2 * i));
    case RowFormat::f16:
      return float_from_half(load_le<std::uint16_t>(packed + 2 * i));
    case RowFormat::f32:
      return load_le<float>(packed + 4 * i);
    case RowFormat::int8_f32:
      return static_cast<float>(static_cast<std::int8_t>(packed[i])) *
             load_le<float>(scales + 4 * group);
    case RowFormat::int4_e4m3:
      return integer_e4m3(nibble(packed, i), 4, byte_at(scales, group));
    case RowFormat::int3_e4m3:
      return integer_e4m3(code_bits(packed, i, 3), 3, byte_at(scales, group));
    case RowFormat::lloyd4_e5m3:
      return lloyd4_value(nibble(packed, i), byte_at(scales, group));
    case RowFormat::int4_f16:
      return static_cast<float>(nibble(packed, i) - 8) *
             float_from_half(load_le<std::uint16_t>(scales + 2 * group));
    case RowFormat::affine:
      return static_cast<float>(code_bits(packed, i, layout.bits)) *
                 affine_parameter(layout, scales, group) +
             affine_parameter(layout, scales + layout.scale_bytes(), group);
    default:
      return block_value(layout.format, packed, i);
  }
}

}  // namespace

void decode_values(const RowLayout& layout, const std::byte* packed, std::size_t first,
                   std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = value_at(layout, packed, first + i);
}

bool expands_to_fp8(RowFormat format) {
  return format == RowFormat::fp8_e4m3_e8m0 || format == RowFormat::mxfp4 ||
         format == RowFormat::int4_e8m0 || format == RowFormat::mxfp4_block;
}

namespace {

// Blocks of one scale byte, then 16 bytes whose low nibbles are columns 0..15 and whose high
// nibbles are columns 16..31.
void expand_mxfp4_blocks(const std::byte* blocks, std::size_t count, std::uint8_t* fp8) {
  constexpr std::size_t kBlockBytes = 17;
  for (std::size_t group = 0; group < count / 32; ++group) {
    const std::byte* block = blocks + group * kBlockBytes;
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint8_t pair = byte_at(block, 1 + i);
      fp8[32 * group + i] = kE4m3FromE2m1[pair & 15];
      fp8[32 * group + 16 + i] = kE4m3FromE2m1[pair >> 4];
    }
    fp8[count + group] = byte_at(block, 0);
  }
}

}  // namespace

void expand_to_fp8(const RowLayout& layout, const std::byte* packed, std::size_t first,
                   std::size_t count, std::uint8_t* fp8) {
  if (layout.format == RowFormat::mxfp4_block) {
    return expand_mxfp4_blocks(packed + first / 32 * 17, count, fp8);
  }
  if (layout.format == RowFormat::fp8_e4m3_e8m0) {
    std::memcpy(fp8, packed + first, count);
  } else {
    const auto& table = layout.format == RowFormat::mxfp4 ? kE4m3FromE2m1 : kE4m3FromInt4;
    simd::expand_nibbles(reinterpret_cast<const std::uint8_t*>(packed) + first / 2, count / 2,
                         table, fp8);
  }
  const std::byte* scales = packed + layout.code_bytes() + first / layout.group;
  std::memcpy(fp8 + count, scales, count / layout.group);
}

}  // namespace engram
