// Every tier, cache and way of asking gives the same rows: random batches, all sizes, repeats.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "tests/support/matchers.hpp"
#include "tests/support/two_tables.hpp"

namespace engram {
namespace {

using test::is_ok;

class TiersTest : public test::TwoTables {
 protected:
  // Every way in which stores can be opened, by name.
  std::map<std::string, StoreOptions> ways() {
    std::map<std::string, StoreOptions> result;
    const auto with = [&](const std::string& name, Tier tier) -> StoreOptions& {
      StoreOptions& options = result[name];
      options.tier = tier;
      options.threads = 2;
      return options;
    };
    with("mmap", Tier::mmap);
    with("ram", Tier::ram);
    with("ram behind", Tier::ram).ram.serve_while_loading = true;
    with("ram copies", Tier::ram).ram.numa = NumaPolicy::copies;
    with("ram partly", Tier::ram).resident = {{1, {3'000, 9'000}}, {14, {12'345, 12'346}}};
    with("direct", Tier::direct);
    with("direct, scales on disk", Tier::direct).resident_scales = false;
    with("direct, readahead", Tier::direct).read_method = ReadMethod::readahead;
    with("direct, threads", Tier::direct).read_method = ReadMethod::threads;
    with("auto", Tier::automatic);
    if (std::filesystem::is_directory("/dev/shm")) {
      name_ = "test-tiers-" + std::to_string(::getpid());
      EXPECT_TRUE(is_ok(load_shared(sources_, name_, {})));
      with("shared", Tier::shared).shared.name = name_;
    }
    return result;
  }
  void TearDown() override { (void)unload_shared(name_); }

  std::string name_ = "none";
};

TEST_F(TiersTest, GiveEqualRows) {
  StoreOptions plain;
  plain.tier = Tier::mmap;
  const Memory reference = make_memory(plain);
  for (const auto& [name, options] : ways()) {
    // None, one that evicts all the time, and one that holds everything.
    for (const std::uint64_t cache_bytes : {0, 6'000, 4 << 20}) {
      const Memory memory = make_memory(options, cache_bytes);
      test::Random random(cache_bytes + 1);
      LookupWorkspace workspace;
      std::string expected;
      std::string found;
      for (int round = 0; round < 60; ++round) {
        const auto table = static_cast<int>(random.below(2));
        const std::size_t count = random.below(random.below(kTokens) + 1);
        const std::size_t first = random.below(kTokens - count + 1);
        const auto batch = keys(table, first, count);
        ASSERT_TRUE(is_ok(reference.lookup(table, batch, raw(expected, count * 3), workspace)));
        if (round % 3 == 0) {
          auto ticket = memory.prefetch(table, batch, Priority::soon);
          ASSERT_TRUE(is_ok(ticket));
          ASSERT_TRUE(is_ok(memory.wait(*ticket, raw(found, count * 3))));
        } else {
          ASSERT_TRUE(is_ok(memory.lookup(table, batch, raw(found, count * 3), workspace)));
        }
        ASSERT_EQ(found, expected) << name << ", cache " << cache_bytes << ", round " << round;
      }
    }
  }
}

TEST_F(TiersTest, GiveEqualRowsById) {
  StoreOptions plain;
  plain.tier = Tier::mmap;
  const Memory reference = make_memory(plain);
  for (const auto& [name, options] : ways()) {
    const Memory memory = make_memory(options);
    test::Random random(7);
    LookupWorkspace workspace;
    for (int round = 0; round < 40; ++round) {
      const auto table = static_cast<int>(random.below(2));
      const auto row_count = sources_[static_cast<std::size_t>(table)].row_count;
      // Both ends, repeats, and neighbours that share a page.
      std::vector<RowId> rows = {0, static_cast<RowId>(row_count) - 1, 0};
      for (std::uint64_t left = random.below(400); left > 0; --left) {
        const auto row = static_cast<RowId>(random.below(row_count));
        rows.push_back(row);
        if (random.below(4) == 0) rows.push_back(std::max<RowId>(0, row - 1));
      }
      std::string expected(rows.size() * kRowBytes, '\0');
      std::string found(expected.size(), '\1');
      const auto output = [](std::string& bytes) {
        return RowOutput{OutputFormat::raw, std::as_writable_bytes(std::span(bytes)), 0};
      };
      ASSERT_TRUE(is_ok(reference.lookup_rows(table, rows, output(expected), workspace)));
      ASSERT_TRUE(is_ok(memory.lookup_rows(table, rows, output(found), workspace)));
      ASSERT_EQ(found, expected) << name << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace engram
