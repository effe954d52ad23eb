// Row formats: how many bytes a row has, and how they become numbers. Knows no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engram/types.hpp"

namespace engram {

// Bytes of one output row.
std::size_t output_bytes(const RowLayout& layout, OutputFormat format);
// 1, 2 or 4: what the address of an output row must be a multiple of.
std::size_t output_alignment(OutputFormat format);

// packed [outputs.size(), row_bytes], codes then scales -> row i at outputs[i].
// Returns the index of the first row with a value that is NaN or infinite, or outputs.size();
// every row is written either way.
std::size_t decode_rows(const RowLayout& layout, OutputFormat format, const std::byte* packed,
                        std::span<std::byte* const> outputs);

// Whether every value of one packed row is finite.
bool row_is_finite(const RowLayout& layout, const std::byte* packed);

}  // namespace engram
