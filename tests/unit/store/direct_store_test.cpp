// Tier direct: the same bytes as tier ram by every method, from every placement, under every fault.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "engram/convert.hpp"
#include "engram/row_store.hpp"

#include "os/block_reader.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

constexpr std::array kMethods = {ReadMethod::uring, ReadMethod::readahead, ReadMethod::threads};

// The packed bytes of rows, or the error.
Result<std::string> fetch(const RowStore& store, const std::vector<RowId>& rows,
                          FetchScratch& scratch) {
  std::vector<RowView> views(rows.size());
  ENGRAM_TRY(store.fetch(rows, views, scratch));
  const RowLayout& layout = store.source().layout;
  std::string bytes;
  for (const RowView& view : views) {
    bytes.append(reinterpret_cast<const char*>(view.codes), layout.code_bytes());
    if (view.scales != nullptr) {
      bytes.append(reinterpret_cast<const char*>(view.scales), layout.scale_bytes());
    }
    if (view.biases != nullptr) {
      bytes.append(reinterpret_cast<const char*>(view.biases), layout.bias_bytes());
    }
  }
  return bytes;
}

class DirectStore : public ::testing::Test {
 protected:
  void SetUp() override {
    model_.write(folder_);
    auto opened = Checkpoint::open(folder_.path());
    ASSERT_TRUE(is_ok(opened));
    split_ = opened->tables()[0];
    ConvertOptions options;
    options.tables_only = true;
    ASSERT_TRUE(is_ok(convert(*opened, folder_ / "paged", options)));
    auto paged = Checkpoint::open(folder_ / "paged");
    ASSERT_TRUE(is_ok(paged));
    paged_ = paged->tables()[0];
    make_interleaved();
  }
  void TearDown() override {
    os::set_read_fault(nullptr);
    os::set_ring_fault(0);
  }

  // Rows of 33 bytes at an odd offset, whole and cut into raw parts.
  void make_interleaved() {
    std::string rows(77, 'x');
    for (std::size_t row = 0; row < 660; ++row) {
      rows += model_.shards[0][0].bytes.substr(row * 32, 32) + model_.shards[0][1].bytes[row];
    }
    rows += "trailing bytes";
    interleaved_ = split_;
    interleaved_.placement = RowPlacement::interleaved;
    interleaved_.scale.reset();
    interleaved_.weight.path = folder_ / "rows";
    interleaved_.weight.offset_bytes = 77;
    interleaved_.weight.size_bytes = 660 * 33;
    interleaved_.weight.file_bytes = rows.size();
    test::write_file(interleaved_.weight.path, rows);
    in_parts_ = interleaved_;
    in_parts_.weight.path = folder_ / "rows.1";
    in_parts_.weight.parts = {folder_ / "rows.1", folder_ / "rows.2", folder_ / "rows.3"};
    test::write_file(in_parts_.weight.parts[0], rows.substr(0, 5000));
    test::write_file(in_parts_.weight.parts[1], rows.substr(5000, 1));
    test::write_file(in_parts_.weight.parts[2], rows.substr(5001));
  }

  std::vector<const TableSource*> sources() const {
    return {&split_, &paged_, &interleaved_, &in_parts_};
  }

  static std::unique_ptr<RowStore> open(const TableSource& source, ReadMethod method,
                                        bool resident_scales = true) {
    auto store = open_row_store(source, {Tier::direct, 1, {}, method, resident_scales});
    EXPECT_TRUE(is_ok(store));
    return *std::move(store);
  }

  test::TemporaryDirectory folder_;
  test::TinyModel model_;
  TableSource split_;
  TableSource paged_;
  TableSource interleaved_;
  TableSource in_parts_;
};

TEST_F(DirectStore, GivesTheRowsOfTierRam) {
  const auto ram = open_row_store(split_, {Tier::ram, 1, {}});
  ASSERT_TRUE(is_ok(ram));
  test::Random random(6);
  FetchScratch none;
  FetchScratch scratch;  // one for all stores and methods
  for (const TableSource* source : sources()) {
    for (const ReadMethod method : kMethods) {
      for (const bool resident : {true, false}) {
        const auto store = open(*source, method, resident);
        for (const std::size_t count : {0, 1, 2, 24, 48, 660, 3072}) {
          std::vector<RowId> rows(count);
          for (RowId& row : rows) row = static_cast<RowId>(random.below(660));
          if (count > 2) rows[0] = 659;
          if (count > 2) rows[1] = 0;
          const auto expected = fetch(**ram, rows, none);
          const auto found = fetch(*store, rows, scratch);
          ASSERT_TRUE(is_ok(found));
          ASSERT_EQ(*found, *expected) << count << " rows, method " << static_cast<int>(method)
                                       << ", placement " << static_cast<int>(source->placement);
        }
      }
    }
  }
}

std::atomic<int> g_calls{0};
std::atomic<int> g_fail_at{0};
std::atomic<int> g_errno{0};

TEST_F(DirectStore, CompletesShortAndInterruptedReads) {
  const auto ram = open_row_store(split_, {Tier::ram, 1, {}});
  std::vector<RowId> rows(660);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<RowId>((i * 331) % 660);
  FetchScratch scratch;
  const auto expected = fetch(**ram, rows, scratch);
  const std::array<os::ReadFault, 3> faults = {
      [](std::uint64_t, int result) { return ++g_calls % 3 == 0 ? -EINTR : result; },
      [](std::uint64_t, int result) { return ++g_calls % 3 == 0 ? -EAGAIN : result; },
      // Half of what came, at least a block where more than one was asked for.
      [](std::uint64_t, int result) {
        return ++g_calls % 2 == 0 && result > 1024 ? result / 2 : result;
      }};
  for (const os::ReadFault fault : faults) {
    for (const TableSource* source : sources()) {
      for (const ReadMethod method : kMethods) {
        os::set_read_fault(fault);
        const auto found = fetch(*open(*source, method, false), rows, scratch);
        os::set_read_fault(nullptr);
        ASSERT_TRUE(is_ok(found));
        ASSERT_EQ(*found, *expected);
      }
    }
  }
}

TEST_F(DirectStore, FailsTheCallWhoseReadFailed) {
  std::vector<RowId> rows(48);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<RowId>(i * 13);
  for (const TableSource* source : sources()) {
    for (const ReadMethod method : kMethods) {
      const auto store = open(*source, method);
      FetchScratch scratch;
      const auto good = fetch(*store, rows, scratch);
      ASSERT_TRUE(is_ok(good));
      for (int fail_at = 1; fail_at <= 3; ++fail_at) {
        for (const int error : {EIO, 0}) {  // 0: the file ends here
          g_calls = 0;
          g_fail_at = fail_at;
          g_errno = error;
          os::set_read_fault(
              [](std::uint64_t, int result) { return ++g_calls == g_fail_at ? -g_errno : result; });
          const auto found = fetch(*store, rows, scratch);
          os::set_read_fault(nullptr);
          if (found) {  // fewer reads than that
            ASSERT_LT(g_calls, fail_at);
            ASSERT_EQ(*found, *good);
          } else if (error == EIO) {
            ASSERT_TRUE(fails(found, Code::io, "Input/output error"));
          } else {
            ASSERT_TRUE(fails(found, Code::corrupt, "truncated: expected"));
          }
          // The next call is none the worse for it.
          const auto again = fetch(*store, rows, scratch);
          ASSERT_TRUE(is_ok(again));
          ASSERT_EQ(*again, *good);
        }
      }
    }
  }
}

TEST_F(DirectStore, NoticesFilesThatChangeWhileOpen) {
  for (const ReadMethod method : kMethods) {
    FetchScratch scratch;
    const auto store = open(interleaved_, method);
    const std::string bytes = test::read_file(interleaved_.weight.path);
    ASSERT_TRUE(is_ok(fetch(*store, {659}, scratch)));
    test::write_file(folder_ / "other", bytes);
    std::filesystem::rename(folder_ / "other", interleaved_.weight.path);
    EXPECT_TRUE(fails(fetch(*store, {659}, scratch), Code::corrupt, "replaced by another file"));
    std::filesystem::remove(interleaved_.weight.path);  // which takes nothing from an open file
    EXPECT_TRUE(is_ok(fetch(*store, {659}, scratch)));
    test::write_file(interleaved_.weight.path, bytes);
    const auto again = open(interleaved_, method);
    std::filesystem::last_write_time(
        interleaved_.weight.path,
        std::filesystem::last_write_time(interleaved_.weight.path) + std::chrono::seconds(5));
    EXPECT_TRUE(fails(fetch(*again, {659}, scratch), Code::corrupt, "written to while open"));
    std::filesystem::resize_file(interleaved_.weight.path, 5000);
    EXPECT_TRUE(fails(fetch(*again, {659}, scratch), Code::corrupt, "changed while open"));
    test::write_file(interleaved_.weight.path, bytes);
  }
}

TEST_F(DirectStore, ChecksEveryPageItReads) {
  const auto store = open(paged_, ReadMethod::automatic);
  std::string bytes = test::read_file(paged_.weight.path);
  const std::size_t page = paged_.weight.offset_bytes + 2 * 4096;
  bytes[page + 17] = static_cast<char>(bytes[page + 17] ^ 1);
  test::write_file(folder_ / "damaged", bytes);
  TableSource damaged = paged_;
  damaged.weight.path = folder_ / "damaged";
  const auto bad = open(damaged, ReadMethod::automatic);
  FetchScratch scratch;
  EXPECT_TRUE(is_ok(fetch(*bad, {0, 123, 600}, scratch)));  // pages 0, 1 and 4 of 123 rows each
  EXPECT_TRUE(fails(fetch(*bad, {0, 300, 600}, scratch), Code::corrupt, "page 2: damaged"));
  EXPECT_TRUE(is_ok(fetch(*store, {300}, scratch)));
}

TEST_F(DirectStore, FallsBackWhereRingsAreForbidden) {
  os::set_ring_fault(EPERM);
  EXPECT_TRUE(fails(open_row_store(split_, {Tier::direct, 1, {}, ReadMethod::uring}),
                    Code::unavailable, "io_uring is not allowed"));
  const auto store = open(split_, ReadMethod::automatic);
  FetchScratch scratch;
  const auto found = fetch(*store, {5, 659, 5}, scratch);
  os::set_ring_fault(0);
  ASSERT_TRUE(is_ok(found));
  FetchScratch other;
  EXPECT_EQ(*found, *fetch(*open(split_, ReadMethod::uring), {5, 659, 5}, other));
}

TEST_F(DirectStore, ServesManyThreads) {
  const auto ram = open_row_store(split_, {Tier::ram, 1, {}});
  for (const ReadMethod method : kMethods) {
    const auto store = open(paged_, method);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&, seed] {
        test::Random random(seed);
        FetchScratch scratch;
        FetchScratch none;
        for (int repeat = 0; repeat < 20; ++repeat) {
          std::vector<RowId> rows(1 + random.below(100));
          for (RowId& row : rows) row = static_cast<RowId>(random.below(660));
          const auto found = fetch(*store, rows, scratch);
          if (!found || *found != *fetch(**ram, rows, none)) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace engram
