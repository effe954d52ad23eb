// FP8 rows to MXFP4 rows by table: a code's nibble and its squared errors depend on the code and
// the exponent of its group alone, and only the 48 codes up to the group's largest matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace engram::simd {

// By class of the largest magnitude code of a group: floor(log2) of its value, from -9 to 8. Tables
// are indexed by code - top + 47, where top is the largest code of the class; smaller codes round
// to zero under both exponents and share entry 0.
struct Mxfp4Tables {
  static constexpr std::size_t kClasses = 18;
  static constexpr std::uint8_t kNoClass = 0xFF;  // of a group of zeros
  static constexpr std::size_t kWindow = 48;

  struct Class {
    std::uint8_t bias;  // top - 47 + 40, which is never negative
    alignas(16) std::array<std::array<std::uint8_t, kWindow>, 2> nibbles;  // by exponent
    // Squared error under the larger exponent, less that under the smaller, in units of
    // 2^(2 e - 9) for floor(log2) = e, plus 128. Exact, and within -64..8: with grid points r1 and
    // r2 it is (r1 - r2) (2 v - r1 - r2), and they differ only where v is near their middle.
    alignas(16) std::array<std::uint8_t, kWindow> gain;
  };

  std::array<std::uint8_t, 128> class_of;
  std::array<std::uint8_t, 128> shift_of;  // 1: the larger exponent; not used by `search`
  std::array<Class, kClasses> classes;
  bool search;
  bool negative_zero;
};

// fp8: `columns` codes (a multiple of 32), then columns / 32 scale bytes -> mxfp4: columns / 2
// bytes, then columns / 32 scale bytes. False where a code is NaN or a scale byte would leave
// 0..254; the caller encodes such a row by definition.
bool mxfp4_from_fp8(const std::uint8_t* fp8, std::size_t columns, const Mxfp4Tables& tables,
                    std::uint8_t* mxfp4);

}  // namespace engram::simd
