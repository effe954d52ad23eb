// Values to stored rows: the quantisers, one row at a time.
#pragma once

#include <cstddef>
#include <span>

#include "engram/types.hpp"

namespace engram {

// Formats that encode_row writes: fp8, bf16, f16, f32, int8, mxfp4 (both orders), int4-e4m3,
// lloyd4 and q8_0.
bool can_encode(RowFormat format);

// values [head_dim], all finite -> packed [row_bytes]. Per group of 32, with amax its largest
// magnitude, rounding to nearest even unless said:
//   fp8       scale 2^ceil(log2(amax / 448)), the smallest at which nothing saturates
//   int8      scale 2^ceil(log2(amax / 127)), 1 for zeros; codes within +-127. Source: vllm-ascend
//   int4-e4m3 scale E4M3(8 * amax / 7); codes of the rounded scale within -8..7. Source: satgeze
//   lloyd4    scale amax rounded up to 4 bits, or one step lower where that is strictly better in
//             squared error; ties to the lower code. Source: ds4 fork
//   q8_0      d = amax / 127 as binary16; codes of the unrounded d, halves away from zero. Source:
//   ggml mxfp4     as `rule` says
// Requires can_encode(layout.format).
void encode_row(const RowLayout& layout, const Mxfp4Rule& rule, std::span<const float> values,
                std::byte* packed);

}  // namespace engram
