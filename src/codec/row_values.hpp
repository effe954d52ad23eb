// One stored row to binary32, by the definition of its format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engram/types.hpp"

namespace engram {

// packed: codes, scales, biases of one row, any alignment; columns [first, first + count), both
// multiples of the group size -> out [count]. Products and sums are single binary32 operations.
// Requires a format that does not expand to FP8.
void decode_values(const RowLayout& layout, const std::byte* packed, std::size_t first,
                   std::size_t count, float* out);

// Formats whose rows are FP8 rows, as they are or in fewer bits.
bool expands_to_fp8(RowFormat format);
// Columns [first, first + count) of such a row, multiples of 32 -> fp8 [count codes, count / 32
// scale bytes].
void expand_to_fp8(const RowLayout& layout, const std::byte* packed, std::size_t first,
                   std::size_t count, std::uint8_t* fp8);

}  // namespace engram
