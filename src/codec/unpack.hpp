// A stretch of a row as plain bytes and binary32 parameters: what the scaled kernel takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engram/types.hpp"

namespace engram {

// Columns unpacked at once: a superblock, and a multiple of every group size.
inline constexpr std::size_t kUnpackColumns = 256;

// value[i] = (codes[i] - zero) * scales[i / group] + biases[i / group]
struct UnpackedRow {
  std::array<std::uint8_t, kUnpackColumns> codes;
  std::array<float, kUnpackColumns / 16> scales;
  std::array<float, kUnpackColumns / 16> biases;
  std::size_t group;
  float zero;
  bool biased;
};

// Affine rows that MLX writes: 2, 3, 4, 6 or 8 bits in groups of 32, 64 or 128.
bool is_known_affine(std::size_t bits, std::size_t group);

// Whether a format is such a row: integer codes with a scale per group.
bool unpacks(RowFormat format);

// Columns [first, first + count), multiples of the block, of one packed row.
// Requires unpacks(layout.format) and count <= kUnpackColumns.
void unpack(const RowLayout& layout, const std::byte* packed, std::size_t first, std::size_t count,
            UnpackedRow& out);

}  // namespace engram
