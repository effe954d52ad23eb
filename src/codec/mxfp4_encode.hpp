// Values to MXFP4 groups: the rule by definition, and the tables that give FP8 rows the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engram/types.hpp"

#include "simd/mxfp4.hpp"

namespace engram {

inline constexpr std::size_t kMxfp4Group = 32;

// The definition: values [32], finite -> codes [16], low nibble first, and the scale byte.
// r = |value| / 2^exponent goes to the nearest of 0 .5 1 1.5 2 3 4 6; exponents stay in -127..127.
std::uint8_t encode_mxfp4_group(const float* values, const Mxfp4Rule& rule, std::byte* codes);

// Tables for simd::mxfp4_from_fp8, made by the definition.
std::unique_ptr<simd::Mxfp4Tables> make_mxfp4_tables(const Mxfp4Rule& rule);

}  // namespace engram
