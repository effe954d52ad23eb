// Which rows of a table a rank of several owns.
#include "hash/partition.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"

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

std::string_view partition_name(Partition partition) {
  switch (partition) {
    case Partition::rows:
      return "rows";
    case Partition::heads:
      return "heads";
    case Partition::strided:
      return "strided";
    case Partition::layer_order:
      return "layer-order";
  }
  return "unknown";
}

namespace {

constexpr std::int64_t kRanksMax = 1024;

struct Share {
  RowRange rows;
  int rank;
};

// The table in ascending pieces, each with its owner.
std::vector<Share> shares_of(const HashSpec& spec, int table_index, Partition partition,
                             int world) {
  const LayerHash& layer = spec.layers()[static_cast<std::size_t>(table_index)];
  const auto ranks = static_cast<std::uint64_t>(world);
  std::vector<Share> shares;
  if (partition == Partition::rows || partition == Partition::heads) {
    for (int rank = 0; rank < world; ++rank) {
      const auto index = static_cast<std::uint64_t>(rank);
      shares.push_back({partition == Partition::rows ? rows_by_block(layer.row_count, ranks, index)
                                                     : rows_by_heads(layer, ranks, index),
                        rank});
    }
    return shares;
  }
  const int heads = spec.config().heads;
  const int first_order = table_index * spec.config().orders();
  for (int column = 0; column < spec.config().columns(); ++column) {
    const auto at = static_cast<std::size_t>(column);
    const int turn = partition == Partition::strided ? column : first_order + column / heads;
    shares.push_back({{layer.offsets[at], layer.offsets[at] + layer.primes[at]}, turn % world});
  }
  return shares;
}

}  // namespace

Result<ShardMap> ShardMap::create(const HashSpec& spec, int table_index, Partition partition,
                                  std::int64_t world) {
  if (world < 1 || world > kRanksMax) {
    return make_error(Code::invalid_argument, "shard: expected 1..{} ranks, found {}", kRanksMax,
                      world);
  }
  std::vector<Piece> pieces;
  std::vector<std::uint64_t> held(static_cast<std::size_t>(world));
  for (const Share& share : shares_of(spec, table_index, partition, static_cast<int>(world))) {
    if (share.rows.count() == 0) continue;
    std::uint64_t& index = held[static_cast<std::size_t>(share.rank)];
    pieces.push_back({share.rows, {share.rank, index}});
    index += share.rows.count();
  }
  return ShardMap(std::move(pieces));
}

std::optional<ShardMap::Owner> ShardMap::owner(RowId row) const {
  const auto index = static_cast<std::uint64_t>(row);  // a negative row is beyond every table
  const auto after = std::upper_bound(
      pieces_.begin(), pieces_.end(), index,
      [](std::uint64_t value, const Piece& piece) { return value < piece.rows.begin; });
  if (after == pieces_.begin() || index >= std::prev(after)->rows.end) return {};
  const Piece& piece = *std::prev(after);
  return Owner{piece.first.rank, piece.first.index + (index - piece.rows.begin)};
}

std::vector<RowRange> ShardMap::rows(int rank) const {
  std::vector<RowRange> ranges;
  for (const Piece& piece : pieces_) {
    if (piece.first.rank != rank) continue;
    if (!ranges.empty() && ranges.back().end == piece.rows.begin) {
      ranges.back().end = piece.rows.end;
    } else {
      ranges.push_back(piece.rows);
    }
  }
  return ranges;
}

}  // namespace engram
