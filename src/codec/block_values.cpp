// GGUF block formats, one column at a time: the definitions that rows are decoded by.
#include "codec/block_values.hpp"

#include "base/bytes.hpp"
#include "codec/elements.hpp"

namespace engram {
namespace {

int byte_at(const std::byte* bytes, std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); }

float half_at(const std::byte* bytes) { return float_from_half(load_le<std::uint16_t>(bytes)); }

// The 6-bit scale and minimum of 32-column block j in the 12 bytes of Q4_K and Q5_K: blocks 0..3
// in the low six bits of bytes 0..7; blocks 4..7 in bytes 8..11 and the top bits of the others.
struct ScaleMin {
  int scale;
  int minimum;
};
ScaleMin scale_min(const std::byte* packed, std::size_t j) {
  if (j < 4) return {byte_at(packed, j) & 63, byte_at(packed, j + 4) & 63};
  return {(byte_at(packed, j + 4) & 15) | byte_at(packed, j - 4) >> 6 << 4,
          byte_at(packed, j + 4) >> 4 | byte_at(packed, j) >> 6 << 4};
}

// Scale i of Q3_K: four low bits in bytes 0..7, two high bits in bytes 8..11, less 32.
int q3_scale(const std::byte* packed, std::size_t i) {
  const int low = i < 8 ? byte_at(packed, i) & 15 : byte_at(packed, i - 8) >> 4;
  const int high = byte_at(packed, 8 + i % 4) >> 2 * (i / 4) & 3;
  return (low | high << 4) - 32;
}

BlockColumn q2_column(const std::byte* block, std::size_t i) {
  const std::size_t half = i / 128;
  const std::size_t shift = i % 128 / 32;
  const std::size_t lane = i % 32;
  const int scales = byte_at(block, 8 * half + 2 * shift + lane / 16);
  return {byte_at(block + 16, 32 * half + lane) >> 2 * shift & 3,
          half_at(block + 80) * static_cast<float>(scales & 15),
          half_at(block + 82) * static_cast<float>(scales >> 4)};
}

BlockColumn q3_column(const std::byte* block, std::size_t i) {
  const std::size_t half = i / 128;
  const std::size_t shift = i % 128 / 32;
  const std::size_t lane = i % 32;
  const int low = byte_at(block + 32, 32 * half + lane) >> 2 * shift & 3;
  const bool high = (byte_at(block, lane) >> (4 * half + shift) & 1) != 0;
  const int scale = q3_scale(block + 96, 8 * half + 2 * shift + lane / 16);
  return {high ? low : low - 4, half_at(block + 108) * static_cast<float>(scale), 0};
}

// Q4_K, and Q5_K whose fifth bits lie between the scales and the codes.
BlockColumn q45_column(const std::byte* block, std::size_t i, bool five_bits) {
  const std::size_t group = i / 32;
  const std::size_t lane = i % 32;
  const std::byte* codes = block + (five_bits ? 48 : 16);
  int code = byte_at(codes, group / 2 * 32 + lane) >> (group % 2 == 0 ? 0 : 4) & 15;
  if (five_bits) code |= (byte_at(block + 16, lane) >> group & 1) << 4;
  const ScaleMin parameters = scale_min(block + 4, group);
  return {code, half_at(block) * static_cast<float>(parameters.scale),
          half_at(block + 2) * static_cast<float>(parameters.minimum)};
}

BlockColumn q6_column(const std::byte* block, std::size_t i) {
  const std::size_t half = i / 128;
  const std::size_t quarter = i % 128 / 32;
  const std::size_t lane = i % 32;
  const int low =
      byte_at(block, 64 * half + 32 * (quarter % 2) + lane) >> (quarter < 2 ? 0 : 4) & 15;
  const int high = byte_at(block + 128, 32 * half + lane) >> 2 * quarter & 3;
  const auto scale = static_cast<std::int8_t>(block[192 + 8 * half + 2 * quarter + lane / 16]);
  return {(low | high << 4) - 32, half_at(block + 208) * static_cast<float>(scale), 0};
}

}  // namespace

BlockColumn block_column(RowFormat format, const std::byte* row, std::size_t i) {
  const RowLayout one_block{format, format == RowFormat::q8_0 ? 32u : 256u};
  const std::byte* block = row + i / one_block.head_dim * one_block.code_bytes();
  const std::size_t column = i % one_block.head_dim;
  switch (format) {
    case RowFormat::q2_k:
      return q2_column(block, column);
    case RowFormat::q3_k:
      return q3_column(block, column);
    case RowFormat::q4_k:
    case RowFormat::q5_k:
      return q45_column(block, column, format == RowFormat::q5_k);
    case RowFormat::q6_k:
      return q6_column(block, column);
    default:
      return {static_cast<std::int8_t>(block[2 + column]), half_at(block), 0};
  }
}

float block_value(RowFormat format, const std::byte* row, std::size_t i) {
  const BlockColumn column = block_column(format, row, i);
  const float product = column.scale * static_cast<float>(column.code);
  const bool has_minimum =
      format == RowFormat::q2_k || format == RowFormat::q4_k || format == RowFormat::q5_k;
  return has_minimum ? product - column.minimum : product;
}

}  // namespace engram
