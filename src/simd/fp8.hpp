// FP8 rows (E4M3FN codes, one E8M0 scale byte per 32 of them) to bfloat16 or binary32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace engram::simd {

// Codes that share one scale byte.
inline constexpr std::size_t kFp8Group = 32;

// The truth: the bits of the binary32 nearest to E4M3FN(code) * 2^(scale - 127).
//   E4M3FN: e == 0 -> m * 2^-9, else (8 + m) * 2^(e - 10); S.1111.111 is NaN; there is no infinity.
//   E8M0: 255 is NaN; 0 is 2^-127.
// Every finite product is exact in binary32; products of 2^128 and more become infinity.
// Source: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0.
// Integer arithmetic only, so a host that flushes subnormals to zero changes nothing.
std::uint32_t fp8_value_bits(std::uint8_t code, std::uint8_t scale);

// Rows packed one after another: `head_dim` codes, then head_dim / 32 scale bytes.
struct Fp8Rows {
  const std::uint8_t* packed;
  std::size_t head_dim;  // a multiple of 32
};

// Decodes row i to outputs[i] ([head_dim], naturally aligned); bfloat16 rounds to nearest even.
// Bit-equal to fp8_value_bits on every target. Returns the index of the first row that holds a NaN
// or an infinity, or outputs.size(); all rows are decoded either way.
std::size_t decode_fp8(const Fp8Rows& rows, std::span<std::uint16_t* const> outputs);
std::size_t decode_fp8(const Fp8Rows& rows, std::span<float* const> outputs);

// The same, one code at a time.
std::size_t decode_fp8_scalar(const Fp8Rows& rows, std::span<std::uint16_t* const> outputs);
std::size_t decode_fp8_scalar(const Fp8Rows& rows, std::span<float* const> outputs);

}  // namespace engram::simd
