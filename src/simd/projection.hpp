// Products of a weight matrix with a few token vectors, weights read once and in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace engram::simd {

// y[token * y_stride + row] = sum over columns of w[row, column] * x[token, column], in binary32
// with one accumulator per vector lane. The order of additions depends on the target and on
// `columns` alone, so any split of the tokens into calls gives the same bits.
struct Projection {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t tokens = 0;
  const float* x = nullptr;  // [tokens, columns]
  float* y = nullptr;        // [tokens, rows] inside rows of y_stride
  std::size_t y_stride = 0;
};

// Scale bytes outside this are refused before project_fp8 is called: activations are scaled by
// 2^(scale - 119) first, which this range keeps far from overflow and underflow.
inline constexpr std::uint8_t kTileScaleMin = 64;
inline constexpr std::uint8_t kTileScaleMax = 190;

// Rows of E4M3FN codes that share one row of 32 x 32 tiles: rows <= 32, columns a multiple of 32,
// scales [columns / 32]. No code may be NaN. `scaled_x` is scratch of [tokens, columns].
void project_fp8(const Projection& p, const std::uint8_t* weights, const std::uint8_t* scales,
                 float* scaled_x);

// bfloat16 weights [rows, columns], naturally aligned; any number of rows and columns.
void project_bfloat16(const Projection& p, const std::uint16_t* weights);

// The same for binary32 weights.
void project_float(const Projection& p, const float* weights);

// The truth, in binary64 and column order.
void project_fp8_scalar(const Projection& p, const std::uint8_t* weights,
                        const std::uint8_t* scales);
void project_bfloat16_scalar(const Projection& p, const std::uint16_t* weights);
void project_float_scalar(const Projection& p, const float* weights);

}  // namespace engram::simd
