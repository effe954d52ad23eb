// Partitions against published numbers and against brute force.
#include "hash/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/golden.hpp"
#include "tests/support/hash_fixture.hpp"

namespace engram {
namespace {

TEST(Partition, MatchesThePublishedBlocks) {
  const JsonElement vector = test::golden("tp-partitions");
  const auto rows = test::flat<std::uint64_t>(test::at(vector, {"inputs", "rows"}));
  const JsonElement expect = test::at(vector, {"expect"});
  for (const std::string_view world : {"2", "4", "8", "16"}) {
    const auto ranks = static_cast<std::uint64_t>(std::stoi(std::string(world)));
    const auto part = test::flat<std::uint64_t>(test::at(expect, {"row_part", world}));
    for (std::size_t table = 0; table < rows.size(); ++table) {
      EXPECT_EQ(rows_by_block(rows[table], ranks, 0).count(), part[table]);
      if (world == "2") continue;
      const auto last = test::flat<std::uint64_t>(test::at(expect, {"row_last_valid", world}));
      EXPECT_EQ(rows_by_block(rows[table], ranks, ranks - 1).count(), last[table]);
    }
  }
  const Hasher hasher = test::make_hasher(test::v41_config());
  const LayerHash& layer = hasher.spec().layers()[0];
  const auto first = test::flat<std::uint64_t>(test::at(expect, {"head_part_tp8_rank0_layer1"}));
  EXPECT_EQ(rows_by_heads(layer, 8, 0).begin, first[0]);
  EXPECT_EQ(rows_by_heads(layer, 8, 0).end, first[1]);
  for (const auto& [world, name] : {std::pair{5, "head_part_tp5"}, {7, "head_part_tp7"}}) {
    const auto heads = test::flat<std::size_t>(test::at(expect, {name})).front();
    EXPECT_EQ(rows_by_heads(layer, static_cast<std::uint64_t>(world), 0).end, layer.offsets[heads]);
  }
}

TEST(Partition, TilesTheTableForEveryWorld) {
  const Hasher hasher = test::make_hasher(test::toy_config());
  const LayerHash& layer = hasher.spec().layers()[0];
  for (std::uint64_t world = 1; world <= 64; ++world) {
    std::uint64_t block_end = 0;
    std::uint64_t heads_end = 0;
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      const RowRange block = rows_by_block(layer.row_count, world, rank);
      const RowRange heads = rows_by_heads(layer, world, rank);
      EXPECT_EQ(block.begin, block_end);
      EXPECT_EQ(heads.begin, heads_end);
      EXPECT_LE(block.begin, block.end);
      block_end = block.end;
      heads_end = heads.end;
    }
    EXPECT_EQ(block_end, layer.row_count);
    EXPECT_EQ(heads_end, layer.row_count);
  }
}

// Every row has one owner under every partition and world size, those that divide nothing included,
// and its index counts the owner's rows in order.
TEST(Partition, GivesEveryRowOneOwner) {
  const Hasher hasher = test::make_hasher(test::toy_config());
  for (int table = 0; table < static_cast<int>(hasher.spec().layers().size()); ++table) {
    const LayerHash& layer = hasher.spec().layers()[static_cast<std::size_t>(table)];
    for (const Partition partition :
         {Partition::rows, Partition::heads, Partition::strided, Partition::layer_order}) {
      for (int world = 1; world <= 64; ++world) {
        const auto map = ShardMap::create(hasher.spec(), table, partition, world);
        ASSERT_TRUE(map);
        std::uint64_t total = 0;
        for (int rank = 0; rank < world; ++rank) {
          std::uint64_t index = 0;
          std::uint64_t last = 0;
          for (const RowRange& range : map->rows(rank)) {
            EXPECT_GT(range.count(), 0u);
            EXPECT_TRUE(range.begin > last || index == 0);
            last = range.end;
            for (std::uint64_t row = range.begin; row < range.end; ++row) {
              const ShardMap::Owner expected{rank, index++};
              ASSERT_EQ(map->owner(static_cast<RowId>(row)), expected);
            }
          }
          total += index;
        }
        EXPECT_EQ(total, layer.row_count);
        EXPECT_FALSE(map->owner(-1));
        EXPECT_FALSE(map->owner(static_cast<RowId>(layer.row_count)));
      }
    }
  }
}

// A stride keeps every order on every rank; blocks of heads do not.
TEST(Partition, StridesHeadsOverOrders) {
  const Hasher hasher = test::make_hasher(test::v41_config());
  const LayerHash& layer = hasher.spec().layers()[0];
  const auto map = ShardMap::create(hasher.spec(), 0, Partition::strided, 8);
  ASSERT_TRUE(map);
  const auto ranges = map->rows(3);
  ASSERT_EQ(ranges.size(), 3u);
  for (std::size_t order = 0; order < 3; ++order) {
    const std::size_t column = 8 * order + 3;
    EXPECT_EQ(ranges[order].begin, layer.offsets[column]);
    EXPECT_EQ(ranges[order].count(), layer.primes[column]);
  }
  EXPECT_TRUE(ShardMap::create(hasher.spec(), 0, Partition::strided, 32)->rows(24).empty());
}

// Six pieces in turn: more ranks than that own nothing.
TEST(Partition, DealsOrdersOfLayersRound) {
  const Hasher hasher = test::make_hasher(test::v41_config());
  for (int table = 0; table < 2; ++table) {
    const LayerHash& layer = hasher.spec().layers()[static_cast<std::size_t>(table)];
    const auto map = ShardMap::create(hasher.spec(), table, Partition::layer_order, 8);
    ASSERT_TRUE(map);
    for (int order = 0; order < 3; ++order) {
      const std::uint64_t begin = layer.offsets[static_cast<std::size_t>(8 * order)];
      EXPECT_EQ(map->owner(static_cast<RowId>(begin)), (ShardMap::Owner{3 * table + order, 0}));
    }
    EXPECT_TRUE(map->rows(7).empty());
  }
}

TEST(Partition, RefusesWorldsThatAreNone) {
  const Hasher hasher = test::make_hasher(test::toy_config());
  for (const int world : {-1, 0, 1025}) {
    EXPECT_FALSE(ShardMap::create(hasher.spec(), 0, Partition::rows, world));
  }
}

}  // namespace
}  // namespace engram
