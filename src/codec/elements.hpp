// Element formats one value at a time: the definitions that rows are decoded and encoded by.
#pragma once

#include <array>
#include <cstdint>

namespace engram {

// IEEE binary16, by integer arithmetic; every value is exact in binary32.
float float_from_half(std::uint16_t bits);
// To nearest, ties to even; too large becomes infinity.
std::uint16_t half_from_float(float value);

// E4M3FN alone: m * 2^-9 where e = 0, else (8 + m) * 2^(e - 10); S.1111.111 is NaN.
float float_from_e4m3(std::uint8_t code);
// To nearest, ties to even; beyond 448 saturates, as OCP conversions to finite values do.
std::uint8_t e4m3_from_float(float value);

// 2^(byte - 127), exact down to the subnormal 2^-127; byte 255 is NaN.
float float_from_e8m0(std::uint8_t byte);

// The scale of Lloyd4 rows, E << 3 | M: (8 + M) / 16 * 2^(E - 16). Source: ds4 fork.
float float_from_e5m3(std::uint8_t byte);

// The E4M3FN code of the same value as each 4-bit code, so that both kinds of row with E8M0 scales
// expand to FP8 rows with the same scale bytes, without loss.
// E2M1: 0 .5 1 1.5 2 3 4 6, then the same negative. Source: OCP Microscaling Formats 1.0.
inline constexpr std::array<std::uint8_t, 16> kE4m3FromE2m1 = {
    0x00, 0x30, 0x38, 0x3C, 0x40, 0x44, 0x48, 0x4C, 0x80, 0xB0, 0xB8, 0xBC, 0xC0, 0xC4, 0xC8, 0xCC};
// Two's complement: 0 .. 7, then -8 .. -1.
inline constexpr std::array<std::uint8_t, 16> kE4m3FromInt4 = {
    0x00, 0x38, 0x40, 0x44, 0x48, 0x4A, 0x4C, 0x4E, 0xD0, 0xCE, 0xCC, 0xCA, 0xC8, 0xC4, 0xC0, 0xB8};
inline constexpr std::array<float, 8> kE2m1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

// Magnitudes of Lloyd4 codes (bit 3 is the sign), fitted to a normal distribution. Source: ds4
// fork.
inline constexpr std::array<float, 8> kLloyd4 = {0,       0.095f,  0.1901f, 0.2944f,
                                                 0.4126f, 0.5586f, 0.7484f, 1};
// kLloyd4[code & 7] * float_from_e5m3(scale), negative where bit 3 of the code is set.
float lloyd4_value(std::uint8_t code, std::uint8_t scale);

}  // namespace engram
