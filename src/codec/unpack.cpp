// A stretch of a row as plain bytes and binary32 parameters: what the scaled kernel takes.
#include "codec/unpack.hpp"

#include <cstring>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "codec/block_values.hpp"
#include "codec/elements.hpp"
#include "simd/scaled.hpp"

namespace engram {
namespace {

using Byte = std::uint8_t;

constexpr simd::NibbleTable kPlain = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
// Two's complement to offset binary.
constexpr simd::NibbleTable kOffset = {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7};

const Byte* bytes_of(const std::byte* bytes) { return reinterpret_cast<const Byte*>(bytes); }

// Codes of 2, 3, 4, 6 or 8 bits in a little-endian bit string.
void unpack_bits(const Byte* in, std::size_t bits, std::size_t count, Byte* out) {
  switch (bits) {
    case 2:
      for (std::size_t i = 0; i < count / 4; ++i) {
        for (std::size_t j = 0; j < 4; ++j) out[4 * i + j] = in[i] >> 2 * j & 3;
      }
      return;
    case 3:
      for (std::size_t i = 0; i < count / 8; ++i, in += 3) {
        const std::uint32_t word = in[0] | in[1] << 8 | in[2] << 16;
        for (std::size_t j = 0; j < 8; ++j) out[8 * i + j] = word >> 3 * j & 7;
      }
      return;
    case 4:
      return simd::expand_nibbles(in, count / 2, kPlain, out);
    case 6:
      for (std::size_t i = 0; i < count / 4; ++i, in += 3) {
        const std::uint32_t word = in[0] | in[1] << 8 | in[2] << 16;
        for (std::size_t j = 0; j < 4; ++j) out[4 * i + j] = word >> 6 * j & 63;
      }
      return;
    default:
      std::memcpy(out, in, count);
  }
}

// Two's complement to offset binary, one code a byte.
void offset_codes(const Byte* in, std::size_t count, Byte flip, Byte* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i] ^ flip;
}

void unpack_affine(const RowLayout& layout, const std::byte* packed, std::size_t first,
                   std::size_t count, UnpackedRow& out) {
  unpack_bits(bytes_of(packed) + first * layout.bits / 8, layout.bits, count, out.codes.data());
  const std::byte* scales = packed + layout.code_bytes();
  const std::byte* biases = scales + layout.scale_bytes();
  const auto parameter = [&](const std::byte* at, std::size_t group) {
    return layout.wide_scales ? load_le<float>(at + 4 * group)
                              : float_from_bfloat16(load_le<std::uint16_t>(at + 2 * group));
  };
  for (std::size_t i = 0; i < count / layout.group; ++i) {
    out.scales[i] = parameter(scales, first / layout.group + i);
    out.biases[i] = parameter(biases, first / layout.group + i);
  }
  out.biased = true;
}

// Formats whose scales follow the codes; `scale(bytes, group)` reads one.
template <typename Scale>
void read_scales(const RowLayout& layout, const std::byte* packed, std::size_t first,
                 std::size_t count, UnpackedRow& out, Scale scale) {
  const std::byte* scales = packed + layout.code_bytes();
  for (std::size_t i = 0; i < count / layout.group; ++i) {
    out.scales[i] = scale(scales, first / layout.group + i);
  }
}

float eighth_of_e4m3(const std::byte* scales, std::size_t group) {
  return float_from_e4m3(bytes_of(scales)[group]) / 8;
}

void unpack_q8_0(const std::byte* blocks, std::size_t count, UnpackedRow& out) {
  for (std::size_t i = 0; i < count / 32; ++i) {
    const std::byte* block = blocks + i * 34;
    offset_codes(bytes_of(block) + 2, 32, 0x80, out.codes.data() + 32 * i);
    out.scales[i] = float_from_half(load_le<std::uint16_t>(block));
  }
  out.zero = 128;
}

// The parameters of a superblock, one column per group asked by definition.
void superblock_parameters(RowFormat format, const std::byte* block, UnpackedRow& out) {
  for (std::size_t i = 0; i < kUnpackColumns / out.group; ++i) {
    const BlockColumn column = block_column(format, block, i * out.group);
    out.scales[i] = column.scale;
    out.biases[i] = -column.minimum;
  }
}

// Codes of Q2_K and Q3_K: two bits a column, a quarter of each half of the superblock at a time.
void unpack_quarters(const Byte* in, Byte* out) {
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t shift = 0; shift < 4; ++shift) {
      for (std::size_t lane = 0; lane < 32; ++lane) {
        out[128 * half + 32 * shift + lane] = in[32 * half + lane] >> 2 * shift & 3;
      }
    }
  }
}

// Codes of Q4_K and Q5_K: the low nibbles of 32 bytes, then their high nibbles.
void unpack_halves(const Byte* in, Byte* out) {
  for (std::size_t pair = 0; pair < 4; ++pair) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      out[64 * pair + lane] = in[32 * pair + lane] & 15;
      out[64 * pair + 32 + lane] = in[32 * pair + lane] >> 4;
    }
  }
}

// Adds bit (32-column block) of high[lane] as bit `place` of every code.
void add_high_bits(const Byte* high, unsigned place, Byte* out) {
  for (std::size_t block = 0; block < 8; ++block) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      out[32 * block + lane] |= (high[lane] >> block & 1) << place;
    }
  }
}

void unpack_q6(const Byte* in, Byte* out) {
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t quarter = 0; quarter < 4; ++quarter) {
      const Byte* low = in + 64 * half + 32 * (quarter % 2);
      const Byte* high = in + 128 + 32 * half;
      const unsigned shift = quarter < 2 ? 0 : 4;
      for (std::size_t lane = 0; lane < 32; ++lane) {
        out[128 * half + 32 * quarter + lane] =
            (low[lane] >> shift & 15) | (high[lane] >> 2 * quarter & 3) << 4;
      }
    }
  }
}

void unpack_superblock(RowFormat format, const std::byte* block, UnpackedRow& out) {
  const Byte* in = bytes_of(block);
  Byte* codes = out.codes.data();
  out.group = format == RowFormat::q4_k || format == RowFormat::q5_k ? 32 : 16;
  out.biased = format != RowFormat::q3_k && format != RowFormat::q6_k;
  switch (format) {
    case RowFormat::q2_k:
      unpack_quarters(in + 16, codes);
      break;
    case RowFormat::q3_k:
      unpack_quarters(in + 32, codes);
      add_high_bits(in, 2, codes);
      out.zero = 4;
      break;
    case RowFormat::q4_k:
      unpack_halves(in + 16, codes);
      break;
    case RowFormat::q5_k:
      unpack_halves(in + 48, codes);
      add_high_bits(in + 16, 4, codes);
      break;
    default:
      unpack_q6(in, codes);
      out.zero = 32;
  }
  superblock_parameters(format, block, out);
}

}  // namespace

bool is_known_affine(std::size_t bits, std::size_t group) {
  const bool known_bits = bits == 2 || bits == 3 || bits == 4 || bits == 6 || bits == 8;
  return known_bits && (group == 32 || group == 64 || group == 128);
}

bool unpacks(RowFormat format) {
  switch (format) {
    case RowFormat::int8_f32:
    case RowFormat::int4_e4m3:
    case RowFormat::int4_f16:
    case RowFormat::int3_e4m3:
    case RowFormat::affine:
    case RowFormat::q8_0:
    case RowFormat::q6_k:
    case RowFormat::q5_k:
    case RowFormat::q4_k:
    case RowFormat::q3_k:
    case RowFormat::q2_k:
      return true;
    default:
      return false;
  }
}

void unpack(const RowLayout& layout, const std::byte* packed, std::size_t first, std::size_t count,
            UnpackedRow& out) {
  out.group = layout.group;
  out.zero = 0;
  out.biased = false;
  Byte* codes = out.codes.data();
  switch (layout.format) {
    case RowFormat::affine:
      return unpack_affine(layout, packed, first, count, out);
    case RowFormat::int8_f32:
      offset_codes(bytes_of(packed) + first, count, 0x80, codes);
      out.zero = 128;
      return read_scales(layout, packed, first, count, out, [](const std::byte* at, std::size_t i) {
        return load_le<float>(at + 4 * i);
      });
    case RowFormat::int4_e4m3:
      simd::expand_nibbles(bytes_of(packed) + first / 2, count / 2, kOffset, codes);
      out.zero = 8;
      return read_scales(layout, packed, first, count, out, eighth_of_e4m3);
    case RowFormat::int3_e4m3:
      unpack_bits(bytes_of(packed) + first / 8 * 3, 3, count, codes);
      offset_codes(codes, count, 4, codes);
      out.zero = 4;
      return read_scales(layout, packed, first, count, out, eighth_of_e4m3);
    case RowFormat::int4_f16:
      simd::expand_nibbles(bytes_of(packed) + first / 2, count / 2, kPlain, codes);
      out.zero = 8;
      return read_scales(layout, packed, first, count, out, [](const std::byte* at, std::size_t i) {
        return float_from_half(load_le<std::uint16_t>(at + 2 * i));
      });
    case RowFormat::q8_0:
      return unpack_q8_0(packed + first / 32 * 34, count, out);
    default: {
      const RowLayout block{layout.format, kUnpackColumns};
      return unpack_superblock(layout.format, packed + first / kUnpackColumns * block.code_bytes(),
                               out);
    }
  }
}

}  // namespace engram
