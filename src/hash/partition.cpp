// Which contiguous rows of a table a rank of several owns.
#include "hash/partition.hpp"

#include <algorithm>

namespace engram {

RowRange rows_by_block(std::uint64_t row_count, std::uint64_t world, std::uint64_t rank) {
  const std::uint64_t block = (row_count + world - 1) / world;
  return {std::min(rank * block, row_count), std::min((rank + 1) * block, row_count)};
}

RowRange rows_by_heads(const LayerHash& layer, std::uint64_t world, std::uint64_t rank) {
  const RowRange columns = rows_by_block(layer.primes.size(), world, rank);
  const auto first_row = [&](std::uint64_t column) {
    return column < layer.offsets.size() ? layer.offsets[column] : layer.row_count;
  };
  return {first_row(columns.begin), first_row(columns.end)};
}

}  // namespace engram
