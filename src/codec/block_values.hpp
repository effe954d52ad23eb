// GGUF block formats, one column at a time: the definitions that rows are decoded by.
//
// d and m are binary16; every product and difference is one binary32 operation, in this order:
//   Q8_0  34 bytes of 32 columns: d, q int8 [32].                       d * q
//   Q2_K  84 of 256: (scale, min) nibbles [16], codes [64], d, m.       (d * s) * q - m * min
//   Q3_K  110: high bits [32], codes [64], scales [12], d.              (d * s) * q
//   Q4_K  144: d, m, (scale, min) [12], codes [128].                    (d * s) * q - m * min
//   Q5_K  176: d, m, (scale, min) [12], high bits [32], codes [128].    (d * s) * q - m * min
//   Q6_K  210: low bits [128], high bits [64], scales int8 [16], d.     (d * s) * q
// Source: the published descriptions of the K-quants in ggml; docs/ALGORITHM.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engram/types.hpp"

namespace engram {

// The parts of one column's formula: value = scale * code - minimum.
struct BlockColumn {
  int code;
  float scale;
  float minimum;  // 0 where the format has none
};

// Column i of a row of blocks. Requires q8_0 or a K-quant.
BlockColumn block_column(RowFormat format, const std::byte* row, std::size_t i);
float block_value(RowFormat format, const std::byte* row, std::size_t i);

}  // namespace engram
