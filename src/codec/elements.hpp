// Element formats one value at a time: the definitions that rows are decoded by.
#pragma once

#include <array>
#include <cstdint>

namespace engram {

// IEEE binary16, by integer arithmetic; every value is exact in binary32.
float float_from_half(std::uint16_t bits);

// E4M3FN alone: m * 2^-9 where e = 0, else (8 + m) * 2^(e - 10); S.1111.111 is NaN.
float float_from_e4m3(std::uint8_t code);

// The E4M3FN code of the same value as each 4-bit code, so that both kinds of row with E8M0 scales
// expand to FP8 rows with the same scale bytes, without loss.
// E2M1: 0 .5 1 1.5 2 3 4 6, then the same negative. Source: OCP Microscaling Formats 1.0.
inline constexpr std::array<std::uint8_t, 16> kE4m3FromE2m1 = {
    0x00, 0x30, 0x38, 0x3C, 0x40, 0x44, 0x48, 0x4C, 0x80, 0xB0, 0xB8, 0xBC, 0xC0, 0xC4, 0xC8, 0xCC};
// Two's complement: 0 .. 7, then -8 .. -1.
inline constexpr std::array<std::uint8_t, 16> kE4m3FromInt4 = {
    0x00, 0x38, 0x40, 0x44, 0x48, 0x4A, 0x4C, 0x4E, 0xD0, 0xCE, 0xCC, 0xCA, 0xC8, 0xC4, 0xC0, 0xB8};

}  // namespace engram
