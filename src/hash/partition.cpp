// Which rows of a table a rank of several owns.
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

std::vector<RowRange> partition_rows(const LayerHash& layer, Partition partition,
                                     std::uint64_t world, std::uint64_t rank) {
  std::vector<RowRange> ranges;
  const auto add = [&](RowRange range) {
    if (range.count() == 0) return;
    if (!ranges.empty() && ranges.back().end == range.begin) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  };
  switch (partition) {
    case Partition::rows:
      add(rows_by_block(layer.row_count, world, rank));
      break;
    case Partition::heads:
      add(rows_by_heads(layer, world, rank));
      break;
    case Partition::strided:
      for (std::size_t column = rank; column < layer.primes.size(); column += world) {
        add({layer.offsets[column], layer.offsets[column] + layer.primes[column]});
      }
      break;
  }
  return ranges;
}

}  // namespace engram
