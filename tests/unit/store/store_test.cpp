// Tiers give equal bytes, at every row and beyond 32 bits, and refuse what is not there.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "engram/row_store.hpp"

#include "os/file.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

std::string row_bytes(const RowStore& store, RowId row) {
  RowView view;
  FetchScratch scratch;
  const Status status = store.fetch({&row, 1}, {&view, 1}, scratch);
  EXPECT_TRUE(is_ok(status));
  const RowLayout& layout = store.source().layout;
  std::string bytes(reinterpret_cast<const char*>(view.codes), layout.code_bytes());
  if (view.scales != nullptr) {
    bytes.append(reinterpret_cast<const char*>(view.scales), layout.scale_bytes());
  }
  return bytes;
}

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_.write(folder_);
    auto opened = Checkpoint::open(folder_.path());
    ASSERT_TRUE(is_ok(opened));
    source_ = opened->tables()[0];
  }

  test::TemporaryDirectory folder_;
  test::TinyModel model_;
  TableSource source_;
};

TEST_F(StoreTest, GivesTheFilesBytesFromEveryTier) {
  for (const Tier tier : {Tier::mmap, Tier::ram, Tier::direct}) {
    for (const int threads : {1, 3}) {
      const auto store = open_row_store(source_, {tier, threads, {}});
      ASSERT_TRUE(is_ok(store));
      EXPECT_EQ((*store)->report().tier, tier);
      EXPECT_EQ((*store)->report().table_bytes, 660u * 33);
      for (RowId row = 0; row < 660; ++row) {
        const auto at = static_cast<std::size_t>(row);
        ASSERT_EQ(row_bytes(**store, row), model_.shards[0][0].bytes.substr(at * 32, 32) +
                                               model_.shards[0][1].bytes.substr(at, 1));
      }
    }
  }
}

TEST_F(StoreTest, RefusesRowsThatAreNotThere) {
  for (const Tier tier : {Tier::mmap, Tier::ram, Tier::direct}) {
    const auto store = open_row_store(source_, {tier, 1, {}});
    ASSERT_TRUE(is_ok(store));
    std::vector<RowView> views(2);
    FetchScratch scratch;
    for (const RowId bad : {RowId{-1}, RowId{660}, RowId{1} << 40}) {
      EXPECT_TRUE(fails((*store)->fetch(std::vector<RowId>{0, bad}, views, scratch),
                        Code::out_of_range, "layer 1: row 1 of 2: expected 0..659"));
    }
    EXPECT_TRUE(fails((*store)->fetch(std::vector<RowId>{0}, views, scratch),
                      Code::invalid_argument, "room"));
  }
}

TEST_F(StoreTest, NoticesAFileThatChangedAfterItsHeaderWasRead) {
  std::filesystem::resize_file(source_.weight.path, source_.weight.file_bytes - 1);
  for (const Tier tier : {Tier::mmap, Tier::ram, Tier::direct}) {
    EXPECT_TRUE(fails(open_row_store(source_, {tier, 1, {}}), Code::corrupt, "changed since"));
  }
}

TEST_F(StoreTest, ReportsProgressUpToTheWholeTable) {
  std::uint64_t last = 0;
  const StoreOptions options{Tier::ram, 1, [&](std::uint64_t done, std::uint64_t total) {
                               EXPECT_GT(done, last);
                               EXPECT_EQ(total, 660u * 33);
                               last = done;
                             }};
  ASSERT_TRUE(is_ok(open_row_store(source_, options)));
  EXPECT_EQ(last, 660u * 33);
}

// A table of the real size, as holes with marked rows: offsets must be 64 bits wide in both tensors
// (row 268,435,456 is 2^31 bytes into the scales and 2^36 into the codes).
class HugeTable : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 384'006'168;

  void SetUp() override {
    const std::string path = folder_ / "table";
    source_ = {
        1,
        {RowFormat::fp8_e4m3_e8m0, 256},
        RowPlacement::split,
        kRows,
        {"w", path, "F8_E4M3", {kRows, 256}, 664, kRows * 256, 664 + kRows * 264},
        TensorExtent{
            "s", path, "F8_E8M0", {kRows, 8}, 664 + kRows * 256, kRows * 8, 664 + kRows * 264}};
    auto file = os::WritableFile::create(path);
    ASSERT_TRUE(is_ok(file));
    ASSERT_TRUE(is_ok(file->resize(664 + kRows * 264)));
    for (const std::uint64_t row : marked_) {
      ASSERT_TRUE(is_ok(file->write_at(664 + row * 256, bytes(marked_row(row).substr(0, 256)))));
      ASSERT_TRUE(
          is_ok(file->write_at(664 + kRows * 256 + row * 8, bytes(marked_row(row).substr(256)))));
    }
  }

  static std::string marked_row(std::uint64_t row) {
    test::Random random(row);
    std::string text;
    for (int i = 0; i < 264; ++i) text += static_cast<char>(random.next());
    return text;
  }

  static std::vector<std::byte> bytes(const std::string& text) {
    std::vector<std::byte> result(text.size());
    std::memcpy(result.data(), text.data(), text.size());
    return result;
  }

  const std::vector<std::uint64_t> marked_ = {0,           8'388'607,   8'388'608, 16'777'216,
                                              268'435'455, 268'435'456, kRows - 1};
  test::TemporaryDirectory folder_;
  TableSource source_;
};

TEST_F(HugeTable, IsAddressedWith64Bits) {
  const auto store = open_row_store(source_, {Tier::mmap, 1, {}});
  ASSERT_TRUE(is_ok(store));
  for (const std::uint64_t row : marked_) {
    EXPECT_EQ(row_bytes(**store, static_cast<RowId>(row)), marked_row(row)) << row;
  }
  EXPECT_EQ(row_bytes(**store, 268'435'457), std::string(264, '\0'));
}

TEST_F(HugeTable, IsRefusedByRamBeforeAnythingIsLoaded) {
  if (os::path_exists("/proc/meminfo")) {
    EXPECT_TRUE(fails(open_row_store(source_, {Tier::ram, 1, {}}), Code::out_of_memory,
                      "tier ram needs 101377628352 bytes for 1 tables"));
    const std::vector<TableSource> both = {source_, source_};
    EXPECT_TRUE(fails(open_row_stores(both, {Tier::ram, 1, {}}), Code::out_of_memory,
                      "tier ram needs 202755256704 bytes for 2 tables"));
  }
}

}  // namespace
}  // namespace engram
