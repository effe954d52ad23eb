// Tier automatic: what it picks, and that the rows are the same.
#include <gtest/gtest.h>

#include "engram/row_store.hpp"

#include "os/file.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

TEST(ChooseTier, PicksByMemoryAndSaysWhy) {
  const test::TemporaryDirectory folder;
  const test::TinyModel model;
  model.write(folder);
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(is_ok(checkpoint));
  StoreOptions options;
  options.tier = Tier::automatic;
  std::vector<TableSource> sources = checkpoint->tables();
  // Just written, so the page cache has it, or the file system is memory.
  const auto small = choose_tier(sources, options);
  ASSERT_TRUE(is_ok(small));
  EXPECT_EQ(small->tier, Tier::mmap) << small->reason;
  const auto stores = open_row_stores(sources, options);
  ASSERT_TRUE(is_ok(stores));
  EXPECT_EQ(stores->front()->report().tier, Tier::mmap);
  // A table that no memory holds, in a file that no cache has.
  if (os::is_memory_file(folder.path())) GTEST_SKIP() << "temporary files are in memory here";
  sources[0].weight.path = folder / "sparse";
  auto sparse = os::WritableFile::create(sources[0].weight.path);
  ASSERT_TRUE(is_ok(sparse));
  ASSERT_TRUE(is_ok(sparse->resize(std::uint64_t{1} << 30)));
  sources[0].row_count = std::uint64_t{1} << 42;
  const auto large = choose_tier(sources, options);
  ASSERT_TRUE(is_ok(large));
  EXPECT_EQ(large->tier, Tier::direct) << large->reason;
  EXPECT_NE(large->reason.find("do not fit"), std::string::npos) << large->reason;
  EXPECT_NE(large->reason.find("48 reads at once"), std::string::npos) << large->reason;
  sources[0].row_count = std::uint64_t{1} << 20;
  const auto medium = choose_tier(sources, options);
  ASSERT_TRUE(is_ok(medium));
  EXPECT_EQ(medium->tier, Tier::ram) << medium->reason;
  options.resident = {{1, {0, 10}}};
  EXPECT_EQ(choose_tier(sources, options)->tier, Tier::ram);
}

}  // namespace
}  // namespace engram
