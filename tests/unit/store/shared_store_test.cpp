// Tier shared: memory under a name, and every way in which it may not be trusted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engram/row_store.hpp"

#include "store/shared_segment.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
namespace fs = std::filesystem;

class SharedStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "this system has no /dev/shm";
    model_.write(folder_);
    auto opened = Checkpoint::open(folder_.path());
    ASSERT_TRUE(is_ok(opened));
    sources_ = opened->tables();
    static int count = 0;
    name_ = "test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    options_.tier = Tier::shared;
    options_.shared.name = name_;
  }
  void TearDown() override { (void)unload_shared(name_); }

  std::string path() const { return "/dev/shm/engram-" + name_; }

  void expect_rows(const std::vector<std::unique_ptr<RowStore>>& stores) {
    FetchScratch scratch;
    for (std::size_t table = 0; table < stores.size(); ++table) {
      for (RowId row = 0; row < 660; row += 7) {
        RowView view;
        ASSERT_TRUE(is_ok(stores[table]->fetch({&row, 1}, {&view, 1}, scratch)));
        const auto at = static_cast<std::size_t>(row);
        ASSERT_EQ(std::memcmp(view.codes, model_.shards[table][0].bytes.data() + at * 32, 32), 0);
        ASSERT_EQ(static_cast<char>(*view.scales), model_.shards[table][1].bytes[at]);
      }
    }
  }

  test::TemporaryDirectory folder_;
  test::TinyModel model_;
  std::vector<TableSource> sources_;
  std::string name_;
  StoreOptions options_;
};

TEST_F(SharedStoreTest, ServesWhatWasLoadedUntilTheLastOneCloses) {
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::not_found, name_));
  StoreOptions load;
  load.threads = 2;
  std::uint64_t last = 0;
  load.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    EXPECT_EQ(total, (660u + 864) * 33);
    last = done;
  };
  ASSERT_TRUE(is_ok(load_shared(sources_, name_, load)));
  EXPECT_GT(last, 0u);
  EXPECT_TRUE(fails(load_shared(sources_, name_, {}), Code::invalid_argument, "exists"));
  const auto stores = open_row_stores(sources_, options_);
  ASSERT_TRUE(is_ok(stores));
  EXPECT_EQ(stores->front()->report().tier, Tier::shared);
  ASSERT_TRUE(is_ok(unload_shared(name_)));
  EXPECT_TRUE(fails(unload_shared(name_), Code::not_found, name_));
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::not_found, name_));
  expect_rows(*stores);
  FetchScratch scratch;
  RowView view;
  const RowId beyond = 660;
  EXPECT_TRUE(fails(stores->front()->fetch({&beyond, 1}, {&view, 1}, scratch), Code::out_of_range,
                    "expected 0..659"));
}

TEST_F(SharedStoreTest, RefusesWhatIsOfOtherFiles) {
  ASSERT_TRUE(is_ok(load_shared(sources_, name_, {})));
  // A file that was written to since.
  const auto before = fs::last_write_time(sources_[1].weight.path);
  fs::last_write_time(sources_[1].weight.path, before + std::chrono::seconds(1));
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::corrupt, "earlier state"));
  fs::last_write_time(sources_[1].weight.path, before);
  ASSERT_TRUE(is_ok(open_row_stores(sources_, options_)));
  // Another model of the same shape, whose files have the same times.
  {
    std::fstream file(sources_[1].weight.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(sources_[1].weight.offset_bytes));
    file.put(static_cast<char>(model_.shards[1][0].bytes[0] ^ 1));
  }
  fs::last_write_time(sources_[1].weight.path, before);
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::corrupt, "row 0 is not as in"));
  // Another layer, another geometry.
  auto other = sources_;
  other[0].layer_id = 3;
  EXPECT_TRUE(fails(open_row_stores(other, options_), Code::corrupt, "no layer 3"));
  other = sources_;
  other[0].held = {{0, 660}};
  EXPECT_TRUE(fails(open_row_stores(other, options_), Code::corrupt, "another model"));
}

TEST_F(SharedStoreTest, RefusesWhatWasLeftUnfinishedAndReplacesIt) {
  {
    const auto segment = SharedSegment::create(sources_, name_);
    ASSERT_TRUE(is_ok(segment));
    EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::unavailable, "being filled"));
    EXPECT_TRUE(fails(unload_shared(name_), Code::unavailable, "filling"));
    EXPECT_TRUE(fails(load_shared(sources_, name_, {}), Code::invalid_argument, "exists"));
  }
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::corrupt, "unfinished"));
  ASSERT_TRUE(is_ok(load_shared(sources_, name_, {})));
  const auto stores = open_row_stores(sources_, options_);
  ASSERT_TRUE(is_ok(stores));
  expect_rows(*stores);
}

TEST_F(SharedStoreTest, LeavesNothingWhereLoadingFails) {
  auto broken = sources_;
  broken[1].weight.file_bytes += 1;
  EXPECT_TRUE(fails(load_shared(broken, name_, {}), Code::corrupt, "changed since"));
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(SharedStoreTest, WaitsUntilItIsFilled) {
  options_.shared.wait = std::chrono::milliseconds(30);
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::not_found, name_));
  options_.shared.wait = std::chrono::seconds(60);
  std::thread loader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(is_ok(load_shared(sources_, name_, {})));
  });
  const auto stores = open_row_stores(sources_, options_);
  loader.join();
  ASSERT_TRUE(is_ok(stores));
  expect_rows(*stores);
}

TEST_F(SharedStoreTest, RefusesDamagedAndForeignMemory) {
  ASSERT_TRUE(is_ok(load_shared(sources_, name_, {})));
  const auto flip = [&](std::streamoff at) {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(at);
    file.put(byte);
  };
  for (const std::streamoff at : {0, 9, 17, 24, 33, 41, 60}) {
    flip(at);
    EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::corrupt, "not shared memory"))
        << at;
    flip(at);
  }
  const auto size = fs::file_size(path());
  fs::resize_file(path(), size - 1);
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::corrupt, "truncated"));
  fs::resize_file(path(), 100);
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::corrupt, "unfinished"));
  fs::resize_file(path(), 0);
  EXPECT_TRUE(fails(open_row_stores(sources_, options_), Code::corrupt, "unfinished"));
  for (const char* name : {"", "a/b", "..\n", "ü"}) {
    EXPECT_TRUE(fails(load_shared(sources_, name, {}), Code::invalid_argument, "expected a name"));
  }
}

TEST_F(SharedStoreTest, RefusesTablesThatDoNotFitBeforeCopying) {
  auto large = sources_;
  large[0].row_count = std::uint64_t{1} << 45;
  EXPECT_TRUE(fails(load_shared(large, name_, {}), Code::out_of_memory, "shared memory needs"));
  EXPECT_TRUE(fails(SharedSegment::create(large, name_), Code::out_of_memory,
                    "1161084283125760 bytes are needed for 2 tables"));
  EXPECT_FALSE(fs::exists(path()));
}

}  // namespace
}  // namespace engram
