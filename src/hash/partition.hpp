// Which rows of a table a rank of several owns.
#pragma once

#include <cstdint>

#include "engram/hash.hpp"

namespace engram {

// Blocks of ceil(row_count / world) rows; the last are short or empty.
// Reference: inference/model.py of DeepSeek-V4.1-Flash, the row-parallel embedding.
// Requires 0 <= rank < world.
RowRange rows_by_block(std::uint64_t row_count, std::uint64_t world, std::uint64_t rank);

// Whole heads: ceil(columns / world) columns each, as vLLM cuts them; the last ranks may own
// fewer or none. Requires 0 <= rank < world.
RowRange rows_by_heads(const LayerHash& layer, std::uint64_t world, std::uint64_t rank);

}  // namespace engram
