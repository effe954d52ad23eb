// Row formats: how many bytes a row has, and how they become numbers. Knows no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engram/types.hpp"

namespace engram {

// The sizes of one row. `codes` and `scales` may lie in two tensors.
struct RowShape {
  RowFormat format = RowFormat::fp8_e4m3_e8m0;
  std::size_t head_dim = 256;

  std::size_t code_bytes() const;
  std::size_t scale_bytes() const;  // 0 where the format has none
  std::size_t row_bytes() const { return code_bytes() + scale_bytes(); }
  std::size_t output_bytes(OutputFormat format) const;
  // 1, 2 or 4: what the address of an output row must be a multiple of.
  static std::size_t output_alignment(OutputFormat format);
};

// packed [outputs.size(), row_bytes], codes then scales -> row i at outputs[i].
// Returns the index of the first row with a value that is NaN or infinite, or outputs.size();
// every row is written either way.
std::size_t decode_rows(const RowShape& shape, OutputFormat format, const std::byte* packed,
                        std::span<std::byte* const> outputs);

}  // namespace engram
