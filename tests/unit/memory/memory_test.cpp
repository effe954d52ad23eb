// Lookups: right rows in the right places, each distinct one read once.
#include "engram/memory.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/bfloat16.hpp"
#include "simd/fp8.hpp"
#include "tests/support/allocations.hpp"
#include "tests/support/hash_fixture.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

// A store that counts what is fetched through it, and can fail.
class CountingStore final : public RowStore {
 public:
  explicit CountingStore(std::unique_ptr<RowStore> inner) : inner_(std::move(inner)) {}
  const TableSource& source() const override { return inner_->source(); }
  StoreReport report() const override { return inner_->report(); }
  Status begin(std::span<const RowId> rows, FetchScratch& scratch,
               Priority priority) const override {
    if (fail_) return Error{Code::io, 5, "disk on fire"};
    fetched_.insert(fetched_.end(), rows.begin(), rows.end());
    return inner_->begin(rows, scratch, priority);
  }
  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& scratch) const override {
    return inner_->finish(rows, views, scratch);
  }

  mutable std::vector<RowId> fetched_;
  bool fail_ = false;

 private:
  std::unique_ptr<RowStore> inner_;
};

class MemoryTest : public ::testing::Test {
 protected:
  void make(Tier tier = Tier::mmap, NanPolicy policy = NanPolicy::propagate,
            std::uint64_t cache_bytes = 0) {
    model_.write(folder_);
    const auto checkpoint = Checkpoint::open(folder_.path());
    ASSERT_TRUE(is_ok(checkpoint));
    std::vector<std::unique_ptr<RowStore>> stores;
    counters_.clear();
    for (const TableSource& source : checkpoint->tables()) {
      auto store = open_row_store(source, {tier, 2, {}});
      ASSERT_TRUE(is_ok(store));
      auto counter = std::make_unique<CountingStore>(*std::move(store));
      counters_.push_back(counter.get());
      stores.push_back(std::move(counter));
    }
    auto memory = Memory::create(test::make_hasher(test::toy_config()), std::move(stores), policy,
                                 cache_bytes);
    ASSERT_TRUE(is_ok(memory));
    memory_ = std::make_unique<Memory>(*std::move(memory));
  }

  // Row `row` of table 0, decoded by definition.
  std::vector<std::uint16_t> expected_bf16(RowId row) const {
    std::vector<std::uint16_t> values;
    const auto at = static_cast<std::size_t>(row);
    for (std::size_t i = 0; i < 32; ++i) {
      values.push_back(bfloat16_from_float_bits(
          simd::fp8_value_bits(static_cast<std::uint8_t>(model_.shards[0][0].bytes[at * 32 + i]),
                               static_cast<std::uint8_t>(model_.shards[0][1].bytes[at]))));
    }
    return values;
  }

  Status lookup_rows(const std::vector<RowId>& rows, std::vector<std::uint16_t>& out) {
    out.assign(rows.size() * 32, 0);
    return memory_->lookup_rows(
        0, rows, {OutputFormat::bf16, std::as_writable_bytes(std::span(out)), 0}, workspace_);
  }

  test::TemporaryDirectory folder_;
  test::TinyModel model_;
  std::vector<CountingStore*> counters_;
  std::unique_ptr<Memory> memory_;
  LookupWorkspace workspace_;
};

TEST_F(MemoryTest, DecodesEveryRowFromEveryTier) {
  std::vector<RowId> rows(660);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<RowId>(rows.size() - 1 - i);
  for (const Tier tier : {Tier::mmap, Tier::ram, Tier::direct}) {
    make(tier);
    std::vector<std::uint16_t> out;
    ASSERT_TRUE(is_ok(lookup_rows(rows, out)));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto expected = expected_bf16(rows[i]);
      ASSERT_TRUE(
          std::equal(expected.begin(), expected.end(), out.begin() + static_cast<long>(i * 32)))
          << i;
    }
  }
}

TEST_F(MemoryTest, WritesEveryFormatAtTheGivenStride) {
  make();
  const std::vector<RowId> rows = {7, 659, 7, 0};
  std::vector<float> wide(4 * 40, -1.0f);
  ASSERT_TRUE(is_ok(memory_->lookup_rows(
      0, rows, {OutputFormat::f32, std::as_writable_bytes(std::span(wide)), 40 * 4}, workspace_)));
  std::string raw(4 * 33, '\0');
  ASSERT_TRUE(is_ok(memory_->lookup_rows(
      0, rows, {OutputFormat::raw, std::as_writable_bytes(std::span(raw)), 0}, workspace_)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto expected = expected_bf16(rows[i]);
    for (std::size_t j = 0; j < 40; ++j) {
      ASSERT_EQ(wide[i * 40 + j], j < 32 ? float_from_bfloat16(expected[j]) : -1.0f);
    }
    const auto at = static_cast<std::size_t>(rows[i]);
    EXPECT_EQ(raw.substr(i * 33, 33), model_.shards[0][0].bytes.substr(at * 32, 32) +
                                          model_.shards[0][1].bytes.substr(at, 1));
  }
}

TEST_F(MemoryTest, ReadsEachDistinctRowOnce) {
  make();
  std::vector<std::uint16_t> out;
  ASSERT_TRUE(is_ok(lookup_rows({5, 6, 5, 5, 6, 7}, out)));
  EXPECT_EQ(counters_[0]->fetched_, (std::vector<RowId>{5, 6, 7}));
  EXPECT_EQ(workspace_.row_count(), 6u);
  EXPECT_EQ(workspace_.unique_row_count(), 3u);
  EXPECT_EQ(std::vector(out.begin() + 64, out.begin() + 96), expected_bf16(5));
  EXPECT_EQ(std::vector(out.begin() + 128, out.begin() + 160), expected_bf16(6));
}

TEST_F(MemoryTest, LooksUpByKeysWhatItLooksUpByRows) {
  make();
  const Hasher& hasher = memory_->hasher();
  const std::vector<CompressedId> ids = {5, 6, 5, 6, 5, 6, 7, kDead, 7, 5, 6};
  for (int table = 0; table < 2; ++table) {
    const auto keys = test::keys_of(hasher, ids);
    const auto rows = test::rows_of(hasher, table, ids);
    const std::size_t per_layer = keys.size() / 2;
    std::vector<float> by_keys(rows.size() * 32);
    std::vector<float> by_rows(rows.size() * 32);
    counters_[static_cast<std::size_t>(table)]->fetched_.clear();
    ASSERT_TRUE(is_ok(memory_->lookup(
        table, std::span(keys).subspan(static_cast<std::size_t>(table) * per_layer, per_layer),
        {OutputFormat::f32, std::as_writable_bytes(std::span(by_keys)), 0}, workspace_)));
    // 2-grams 5 and 56 65 67 .. repeat: fewer rows are read than written.
    EXPECT_LT(workspace_.unique_row_count(), workspace_.row_count());
    EXPECT_EQ(counters_[static_cast<std::size_t>(table)]->fetched_.size(),
              workspace_.unique_row_count());
    ASSERT_TRUE(is_ok(memory_->lookup_rows(
        table, rows, {OutputFormat::f32, std::as_writable_bytes(std::span(by_rows)), 0},
        workspace_)));
    EXPECT_EQ(by_keys, by_rows);
  }
}

TEST_F(MemoryTest, KeepsOrdersApartWhereTheirKeysAreEqual) {
  make();
  // Equal rolling values of different orders name different rows.
  const std::vector<Key> keys = {1234567, 1234567, 1234567};
  std::vector<std::uint16_t> out(6 * 32);
  ASSERT_TRUE(is_ok(memory_->lookup(
      0, keys, {OutputFormat::bf16, std::as_writable_bytes(std::span(out)), 0}, workspace_)));
  std::vector<RowId> rows(6);
  ASSERT_TRUE(is_ok(memory_->hasher().rows(0, keys, rows)));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(std::vector(out.begin() + static_cast<long>(i * 32),
                          out.begin() + static_cast<long>(i * 32 + 32)),
              expected_bf16(rows[i]));
  }
}

TEST_F(MemoryTest, RejectsOrPropagatesNonFiniteRows) {
  model_.shards[0][0].bytes[10 * 32 + 3] = '\x7f';  // a NaN code
  model_.shards[0][1].bytes[11] = '\xff';           // a NaN scale
  model_.shards[0][1].bytes[12] = '\xfe';           // overflows to infinity
  make(Tier::mmap, NanPolicy::propagate);
  std::vector<std::uint16_t> out;
  ASSERT_TRUE(is_ok(lookup_rows({9, 10, 11, 12}, out)));
  EXPECT_TRUE(std::isnan(float_from_bfloat16(out[32 + 3])));
  EXPECT_TRUE(std::isnan(float_from_bfloat16(out[64])));
  make(Tier::ram, NanPolicy::reject);
  for (const RowId bad : {10, 11, 12}) {
    EXPECT_TRUE(fails(lookup_rows({8, 9, bad}, out), Code::corrupt,
                      "layer 1: row " + std::to_string(bad) + " holds a NaN or an infinity"));
    std::string raw(33, '\0');
    EXPECT_TRUE(
        fails(memory_->lookup_rows(0, std::vector<RowId>{bad},
                                   {OutputFormat::raw, std::as_writable_bytes(std::span(raw)), 0},
                                   workspace_),
              Code::corrupt, "NaN"));
  }
  EXPECT_TRUE(is_ok(lookup_rows({8, 9, 13}, out)));
  std::string raw(3 * 33, '\0');
  EXPECT_TRUE(is_ok(memory_->lookup_rows(
      0, std::vector<RowId>{8, 9, 13},
      {OutputFormat::raw, std::as_writable_bytes(std::span(raw)), 0}, workspace_)));
}

TEST_F(MemoryTest, PassesAStoresErrorOn) {
  make();
  counters_[0]->fail_ = true;
  std::vector<std::uint16_t> out;
  EXPECT_TRUE(fails(lookup_rows({1, 2}, out), Code::io, "disk on fire"));
}

TEST_F(MemoryTest, RefusesBadRowsAndBuffers) {
  make();
  std::vector<std::uint16_t> out(32 * 4);
  const auto bytes = std::as_writable_bytes(std::span(out));
  const auto look = [&](RowOutput output, std::vector<RowId> rows, int table = 0) {
    return memory_->lookup_rows(table, rows, output, workspace_);
  };
  EXPECT_TRUE(fails(look({OutputFormat::bf16, bytes, 0}, {660}), Code::out_of_range, "row 0 of 1"));
  EXPECT_TRUE(fails(look({OutputFormat::bf16, bytes, 0}, {-1}), Code::out_of_range, "found -1"));
  EXPECT_TRUE(fails(look({OutputFormat::bf16, bytes, 0}, {0, 1, 2, 3, 4}), Code::invalid_argument,
                    "do not fit 256 bytes"));
  EXPECT_TRUE(
      fails(look({OutputFormat::bf16, bytes, 63}, {0}), Code::invalid_argument, "stride 63"));
  EXPECT_TRUE(fails(look({OutputFormat::bf16, bytes.subspan(1), 0}, {0}), Code::invalid_argument,
                    "aligned to 2"));
  EXPECT_TRUE(fails(look({OutputFormat::bf16, bytes, ~std::size_t{1}}, {0, 1, 2}),
                    Code::invalid_argument, "do not fit"));
  EXPECT_TRUE(
      fails(look({OutputFormat::bf16, bytes, 0}, {0}, 2), Code::out_of_range, "table index"));
  EXPECT_TRUE(is_ok(look({OutputFormat::bf16, {}, 0}, {})));
}

TEST_F(MemoryTest, ServesEmptyBatches) {
  make();
  EXPECT_TRUE(is_ok(memory_->lookup(1, {}, {OutputFormat::f32, {}, 0}, workspace_)));
  EXPECT_EQ(workspace_.row_count(), 0u);
}

TEST_F(MemoryTest, TakesMoreThan65536RowsAtOnce) {
  make();
  std::vector<RowId> rows(65'544);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<RowId>(i % 660);
  std::vector<std::uint16_t> out;
  ASSERT_TRUE(is_ok(lookup_rows(rows, out)));
  EXPECT_EQ(std::vector(out.end() - 32, out.end()), expected_bf16(rows.back()));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(MemoryTest, AllocatesNothingOnceTheLargestBatchHasBeenSeen) {
  make(Tier::ram);
  const std::vector<CompressedId> ids = {5, 6, 5, 6, 5, 6, 7, kDead, 7, 5, 6};
  const auto keys = test::keys_of(memory_->hasher(), ids);
  const auto layer_keys = std::span(keys).first(keys.size() / 2);
  const auto rows = test::rows_of(memory_->hasher(), 0, ids);
  std::vector<float> out(rows.size() * 32);
  const RowOutput output{OutputFormat::f32, std::as_writable_bytes(std::span(out)), 0};
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = test::allocation_count();
    ASSERT_TRUE(is_ok(memory_->lookup(0, layer_keys, output, workspace_)));
    ASSERT_TRUE(is_ok(memory_->lookup(0, layer_keys.first(3), output, workspace_)));
    ASSERT_TRUE(is_ok(memory_->lookup_rows(0, rows, output, workspace_)));
    const std::uint64_t allocations = test::allocation_count() - before;
    // The counting store of this test records what it fetches, which may allocate once per fetch.
    if (round > 0) {
      EXPECT_LE(allocations, 3u) << "round " << round;
    }
    counters_[0]->fetched_.clear();
  }
}
#endif

TEST_F(MemoryTest, RefusesStoresOfAnotherModel) {
  make();
  EXPECT_TRUE(fails(Memory::create(test::make_hasher(test::toy_config()), {}, NanPolicy::propagate),
                    Code::invalid_argument, "expected 2 stores, found 0"));
}

// Batches of n-grams through a cache far too small for them, against no cache at all.
TEST_F(MemoryTest, GivesTheSameRowsThroughACache) {
  std::vector<std::vector<Key>> batches;
  test::Random random(5);
  for (int batch = 0; batch < 60; ++batch) {
    std::vector<CompressedId> ids(1 + random.below(60));
    for (CompressedId& id : ids) id = static_cast<CompressedId>(random.below(1 + random.below(16)));
    batches.push_back(test::keys_of(test::make_hasher(test::toy_config()), ids));
  }
  std::vector<std::string> expected;
  for (const std::uint64_t cache_bytes : {0, 9'000, 1 << 20}) {
    for (const Tier tier : {Tier::mmap, Tier::direct}) {
      make(tier, NanPolicy::propagate, cache_bytes);
      std::uint64_t asked = 0;
      for (std::size_t i = 0; i < batches.size(); ++i) {
        for (int table = 0; table < 2; ++table) {
          const std::size_t half = batches[i].size() / 2;  // keys of one table
          const auto keys =
              std::span(batches[i]).subspan(static_cast<std::size_t>(table) * half, half);
          std::string raw(half * 2 * 33, '\0');
          ASSERT_TRUE(is_ok(memory_->lookup(
              table, keys, {OutputFormat::raw, std::as_writable_bytes(std::span(raw)), 0},
              workspace_)));
          const std::size_t at = 2 * i + static_cast<std::size_t>(table);
          if (expected.size() <= at) expected.push_back(raw);
          ASSERT_EQ(raw, expected[at]) << cache_bytes << " bytes, batch " << i;
          if (table == 0) asked += half;
        }
      }
      std::uint64_t keys = 0;
      std::uint64_t unique = 0;
      std::uint64_t hits = 0;
      for (const OrderStats& order : memory_->stats(0).orders) {
        keys += order.keys;
        unique += order.unique;
        hits += order.hits;
      }
      EXPECT_EQ(keys, asked);
      EXPECT_LT(unique, keys);
      EXPECT_EQ(counters_[0]->fetched_.size(), 2 * (unique - hits));
      EXPECT_EQ(hits > 0, cache_bytes != 0);
    }
  }
}

TEST_F(MemoryTest, RefusesACacheTooSmallToHelp) {
  std::vector<std::unique_ptr<RowStore>> stores;
  model_.write(folder_);
  const auto checkpoint = Checkpoint::open(folder_.path());
  for (const TableSource& source : checkpoint->tables()) {
    stores.push_back(*open_row_store(source, {}));
  }
  EXPECT_TRUE(fails(Memory::create(test::make_hasher(test::toy_config()), std::move(stores),
                                   NanPolicy::propagate, 3000),
                    Code::invalid_argument, "expected at least 64"));
}

}  // namespace
}  // namespace engram
