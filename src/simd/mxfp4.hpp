// FP8 rows to MXFP4 rows by table: a code's nibble depends on the code and the group's exponent
// alone, and magnitudes order as codes do, so a nibble is the number of thresholds at or below it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace engram::simd {

// By the largest magnitude code of a group (its class is floor(log2) of the value, from -9 to 8).
struct Mxfp4Tables {
  static constexpr std::size_t kClasses = 18;
  static constexpr std::uint8_t kNoClass = 0xFF;  // of a group of zeros

  std::array<std::uint8_t, 128> class_of;
  std::array<std::uint8_t, 128> shift_of;  // 1: the larger exponent; not used by `search`
  // thresholds[class][shift][i]: the smallest code whose nibble exceeds i; 127 where none does.
  std::array<std::array<std::array<std::uint8_t, 8>, 2>, kClasses> thresholds;
  // Squared error of each code under the larger exponent, less that under the smaller; exact.
  std::array<std::array<double, 128>, kClasses> gain;
  bool search;
  bool negative_zero;
};

// fp8: `columns` codes (a multiple of 32), then columns / 32 scale bytes -> mxfp4: columns / 2
// bytes, then columns / 32 scale bytes. False where a code is NaN or a scale byte would leave
// 0..254; the caller encodes such a row by definition.
bool mxfp4_from_fp8(const std::uint8_t* fp8, std::size_t columns, const Mxfp4Tables& tables,
                    std::uint8_t* mxfp4);

}  // namespace engram::simd
