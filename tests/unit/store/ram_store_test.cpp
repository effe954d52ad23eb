// Tier ram: all, some, or not yet all rows in memory give the same bytes.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "engram/convert.hpp"
#include "engram/row_store.hpp"

#include "os/memory.hpp"
#include "os/numa.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

// Rows of 256 codes and 8 scales, enough for several chunks of loading.
class RamStoreTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 100'000;

  RamStoreTest() {
    test::Random random(11);
    rows_.resize(kRows * 264);
    for (std::size_t i = 0; i + 8 <= rows_.size(); i += 8) {
      const std::uint64_t word = random.next();
      std::memcpy(rows_.data() + i, &word, 8);
    }
    source_.layer_id = 1;
    source_.row_count = kRows;
    source_.placement = RowPlacement::interleaved;
    source_.weight.path = folder_ / "rows";
    source_.weight.size_bytes = source_.weight.file_bytes = rows_.size();
    test::write_file(source_.weight.path, rows_);
  }

  Result<std::unique_ptr<RowStore>> open(const StoreOptions& options) {
    return open_row_store(source_, options);
  }

  // Rows drawn at random, and each end of the table, against the file.
  void expect_rows(const RowStore& store, std::uint64_t seed) {
    test::Random random(seed);
    std::vector<RowId> ids = {0, kRows - 1};
    for (int i = 0; i < 200; ++i) ids.push_back(static_cast<RowId>(random.below(kRows)));
    std::vector<RowView> views(ids.size());
    ASSERT_TRUE(is_ok(store.fetch(ids, views, scratch_)));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const char* expected = rows_.data() + static_cast<std::size_t>(ids[i]) * 264;
      ASSERT_EQ(std::memcmp(views[i].codes, expected, 256), 0) << ids[i];
      ASSERT_EQ(std::memcmp(views[i].scales, expected + 256, 8), 0) << ids[i];
    }
  }

  test::TemporaryDirectory folder_;
  std::string rows_;
  TableSource source_;
  FetchScratch scratch_;
};

StoreOptions ram() {
  StoreOptions options;
  options.tier = Tier::ram;
  options.threads = 2;
  return options;
}

void wait_until_loaded(const RowStore& store) {
  for (int i = 0; i < 100'000; ++i) {
    const StoreReport report = store.report();
    if (report.resident_bytes == report.table_bytes || !report.loading) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

TEST_F(RamStoreTest, KeepsOnlyTheRowsAskedFor) {
  StoreOptions options = ram();
  options.resident = {{1, {90'000, 99'000}},
                      {1, {10, 40'000}},
                      {1, {30'000, 50'000}},
                      {14, {0, 100}},
                      {1, {99'990, 1'000'000}}};
  const auto store = open(options);
  ASSERT_TRUE(is_ok(store));
  EXPECT_EQ((*store)->report().resident_bytes, (49'990u + 9'000 + 10) * 264);
  for (std::uint64_t seed = 0; seed < 20; ++seed) expect_rows(**store, seed);
  // Rows in memory need no read.
  const std::vector<RowId> kept = {10, 49'999, 90'000, 99'999};
  std::vector<RowView> views(kept.size());
  const ReadCounts before = scratch_.counts();
  ASSERT_TRUE(is_ok((*store)->fetch(kept, views, scratch_)));
  EXPECT_EQ(scratch_.counts().reads, before.reads);
  ASSERT_TRUE(
      is_ok((*store)->fetch(std::vector<RowId>{9, 50'000, 89'999, 99'000}, views, scratch_)));
  EXPECT_GE(scratch_.counts().reads, before.reads + 4);
}

TEST_F(RamStoreTest, KeepsRowsOfAShardByTheirGlobalIds) {
  source_.row_count = 300'000;
  source_.held = {{50'000, 110'000}, {200'000, 240'000}};
  StoreOptions options = ram();
  options.resident = {{1, {100'000, 210'000}}};
  const auto store = open(options);
  ASSERT_TRUE(is_ok(store));
  EXPECT_EQ((*store)->report().resident_bytes, 20'000u * 264);
  const std::vector<RowId> ids = {50'000, 99'999, 100'000, 109'999, 200'000, 209'999, 239'999};
  const std::vector<std::size_t> positions = {0, 49'999, 50'000, 59'999, 60'000, 69'999, 99'999};
  std::vector<RowView> views(ids.size());
  ASSERT_TRUE(is_ok((*store)->fetch(ids, views, scratch_)));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(std::memcmp(views[i].codes, rows_.data() + positions[i] * 264, 256), 0) << ids[i];
  }
}

TEST_F(RamStoreTest, ServesWhileItLoads) {
  for (const bool partly : {false, true}) {
    StoreOptions options = ram();
    options.ram.serve_while_loading = true;
    if (partly) options.resident = {{1, {5'000, 95'000}}};
    const auto store = open(options);
    ASSERT_TRUE(is_ok(store));
    std::vector<std::thread> readers;
    const std::uint64_t loaded = (partly ? 90'000u : kRows) * 264;
    for (std::uint64_t reader = 0; reader < 2; ++reader) {
      readers.emplace_back([&, reader] {
        FetchScratch scratch;
        for (int round = 0; round < 2'000; ++round) {
          const auto row =
              static_cast<RowId>((static_cast<std::uint64_t>(round) * 7919 + reader) % kRows);
          RowView view;
          ASSERT_TRUE(is_ok((*store)->fetch({&row, 1}, {&view, 1}, scratch)));
          ASSERT_EQ(
              std::memcmp(view.codes, rows_.data() + static_cast<std::size_t>(row) * 264, 256), 0);
          if ((*store)->report().resident_bytes == loaded && round > 100) break;
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
    for (int i = 0; i < 100'000 && (*store)->report().resident_bytes != loaded; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    EXPECT_EQ((*store)->report().resident_bytes, loaded);
    expect_rows(**store, 3);
    // And one that is closed before it has loaded.
    const auto closed = open(options);
    ASSERT_TRUE(is_ok(closed));
  }
}

TEST_F(RamStoreTest, GoesOnServingWhereLoadingFails) {
  // A paged table with one damaged page.
  test::TinyModel model;
  test::TemporaryDirectory folder;
  model.write(folder);
  auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(is_ok(opened));
  ConvertOptions to_pages;
  to_pages.tables_only = true;
  ASSERT_TRUE(is_ok(convert(*opened, folder / "paged", to_pages)));
  auto paged = Checkpoint::open(folder / "paged");
  ASSERT_TRUE(is_ok(paged));
  const TableSource& source = paged->tables()[0];
  {
    std::fstream file(source.weight.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(source.weight.offset_bytes + 2 * 4096 + 100));
    file.put('\x55');
  }
  StoreOptions options = ram();
  EXPECT_TRUE(fails(open_row_store(source, options), Code::corrupt, "page 2"));
  options.ram.serve_while_loading = true;
  const auto store = open_row_store(source, options);
  ASSERT_TRUE(is_ok(store));
  wait_until_loaded(**store);
  EXPECT_TRUE(fails((*store)->report().loading, Code::corrupt, "page 2"));
  RowView view;
  const RowId good = 659;
  const RowId bad = 300;
  EXPECT_TRUE(is_ok((*store)->fetch({&good, 1}, {&view, 1}, scratch_)));
  EXPECT_TRUE(fails((*store)->fetch({&bad, 1}, {&view, 1}, scratch_), Code::corrupt, "page 2"));
}

TEST_F(RamStoreTest, PlacesAndLocksItsMemory) {
  for (const NumaPolicy policy : {NumaPolicy::local, NumaPolicy::interleave, NumaPolicy::copies}) {
    StoreOptions options = ram();
    options.ram.numa = policy;
    options.ram.lock = true;
    const auto store = open(options);
    if (!store && store.error().code == Code::out_of_memory) {
      GTEST_SKIP() << "this system does not let us lock 26 MB: " << store.error().message;
    }
    ASSERT_TRUE(is_ok(store));
    expect_rows(**store, 1);
  }
  EXPECT_FALSE(os::numa_nodes().empty());
}

TEST_F(RamStoreTest, TakesReservedPagesOrSaysHowManyAreFree) {
  StoreOptions options = ram();
  options.ram.pages = HugePages::reserved_2m;
  const auto store = open(options);
  if (store) {
    expect_rows(**store, 1);
    EXPECT_EQ((*store)->report().huge_bytes, kRows * 264);
  } else {
    EXPECT_TRUE(fails(store, Code::out_of_memory, "13 reserved pages of 2097152 bytes ("));
  }
  options.ram.pages = HugePages::reserved_1g;
  options.ram.numa = NumaPolicy::copies;
  const auto large = open(options);
  if (!large) {
    EXPECT_TRUE(fails(large, Code::out_of_memory, "reserved pages of 1073741824"));
  }
}

TEST_F(RamStoreTest, RefusesResidencyOfOtherTiers) {
  StoreOptions options;
  options.resident = {{1, {0, 10}}};
  EXPECT_TRUE(fails(open(options), Code::invalid_argument, "tier ram"));
}

}  // namespace
}  // namespace engram
