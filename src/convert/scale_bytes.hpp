// The E8M0 scale bytes of packed rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engram/types.hpp"

namespace engram {

// Adds to counts [256] (made where it is empty); formats without E8M0 scales leave it empty.
inline void count_scale_bytes(const RowLayout& layout, std::span<const std::byte> packed,
                              std::vector<std::uint64_t>& counts) {
  const bool trailing = layout.format == RowFormat::fp8_e4m3_e8m0 ||
                        layout.format == RowFormat::mxfp4 || layout.format == RowFormat::int4_e8m0;
  if (!trailing && layout.format != RowFormat::mxfp4_block) return;
  counts.resize(256);
  const std::size_t first = trailing ? layout.code_bytes() : 0;
  const std::size_t step = trailing ? 1 : layout.code_bytes() / (layout.head_dim / layout.group);
  for (std::size_t row = 0; row < packed.size(); row += layout.row_bytes()) {
    for (std::size_t at = row + first; at < row + layout.row_bytes(); at += step) {
      ++counts[std::to_integer<std::size_t>(packed[at])];
    }
  }
}

}  // namespace engram
