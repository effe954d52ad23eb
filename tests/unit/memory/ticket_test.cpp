// Lookups in two halves: the same rows as in one, by every tier, however they are interleaved.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <thread>

#include "engram/memory.hpp"

#include "os/block_reader.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"
#include "tests/support/two_tables.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

constexpr std::array kPriorities = {Priority::now, Priority::soon, Priority::whenever};
class TicketTest : public test::TwoTables {
 protected:
  void TearDown() override { os::set_read_fault(nullptr); }

  Memory open(Tier tier, ReadMethod method = ReadMethod::automatic, std::uint64_t cache = 0) {
    StoreOptions options;
    options.tier = tier;
    options.read_method = method;
    return make_memory(options, cache);
  }

  std::string looked_up(const Memory& memory, int table, std::size_t first, std::size_t count) {
    std::string bytes;
    EXPECT_TRUE(
        is_ok(memory.lookup(table, keys(table, first, count), raw(bytes, count * 3), workspace_)));
    return bytes;
  }

  LookupWorkspace workspace_;
};

struct Way {
  Tier tier;
  ReadMethod method;
};
constexpr std::array kWays = {
    Way{Tier::mmap, ReadMethod::automatic}, Way{Tier::ram, ReadMethod::automatic},
    Way{Tier::direct, ReadMethod::uring}, Way{Tier::direct, ReadMethod::readahead},
    Way{Tier::direct, ReadMethod::threads}};

TEST_F(TicketTest, GivesWhatALookupGives) {
  const Memory ram = open(Tier::ram);
  const std::string expected0 = looked_up(ram, 0, 0, 700);
  const std::string expected1 = looked_up(ram, 1, 0, 700);
  for (const Way way : kWays) {
    for (const std::uint64_t cache : {0, 30'000}) {
      const Memory memory = open(way.tier, way.method, cache);
      for (const Priority priority : kPriorities) {
        auto first = memory.prefetch(0, keys(0, 0, 700), priority);
        auto second = memory.prefetch(1, keys(1, 0, 700), priority);
        ASSERT_TRUE(is_ok(first));
        ASSERT_TRUE(is_ok(second));
        std::string rows0;
        std::string rows1;
        ASSERT_TRUE(is_ok(memory.wait(*second, raw(rows1, 2100))));
        ASSERT_TRUE(is_ok(memory.wait(*first, raw(rows0, 2100))));
        ASSERT_EQ(rows0, expected0);
        ASSERT_EQ(rows1, expected1);
        EXPECT_FALSE(first->pending());
      }
    }
  }
}

TEST_F(TicketTest, BecomesReadyWithoutWaiting) {
  const std::string expected = looked_up(open(Tier::ram), 0, 0, 700);
  for (const ReadMethod method : {ReadMethod::uring, ReadMethod::threads}) {
    const Memory memory = open(Tier::direct, method);
    for (const Priority priority : kPriorities) {
      auto ticket = memory.prefetch(0, keys(0, 0, 700), priority);
      ASSERT_TRUE(is_ok(ticket));
      for (int i = 0; i < 100'000 && !ticket->ready(); ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      EXPECT_TRUE(ticket->ready());
      std::string rows;
      ASSERT_TRUE(is_ok(memory.wait(*ticket, raw(rows, 2100))));
      ASSERT_EQ(rows, expected);
    }
  }
}

TEST_F(TicketTest, CanBeGivenUpAtAnyMoment) {
  const std::string expected = looked_up(open(Tier::ram), 0, 5, 40);
  for (const Way way : kWays) {
    const Memory memory = open(way.tier, way.method);
    for (int round = 0; round < 20; ++round) {
      auto dropped = memory.prefetch(0, keys(0, 0, 700), Priority::soon);
      auto cancelled = memory.prefetch(1, keys(1, 0, 700), Priority::whenever);
      auto kept = memory.prefetch(0, keys(0, 5, 40), Priority::soon);
      ASSERT_TRUE(is_ok(kept));
      cancelled->cancel();
      EXPECT_FALSE(cancelled->pending());
      Ticket moved = *std::move(dropped);
      { const Ticket gone = std::move(moved); }
      std::string rows;
      ASSERT_TRUE(is_ok(memory.wait(*kept, raw(rows, 120))));
      ASSERT_EQ(rows, expected);
    }
    // What was given up was never counted.
    EXPECT_EQ(memory.stats(1).orders[0].keys, 0u);
    EXPECT_EQ(memory.stats(0).orders[0].keys, 20u * 40);
  }
}

TEST_F(TicketTest, RefusesASpentForeignOrMisfitTicket) {
  const Memory memory = open(Tier::direct);
  const Memory other = open(Tier::direct);
  std::string rows;
  Ticket none;
  EXPECT_TRUE(fails(memory.wait(none, raw(rows, 3)), Code::invalid_argument, "no lookup pending"));
  auto ticket = memory.prefetch(0, keys(0, 0, 1), Priority::soon);
  EXPECT_TRUE(fails(other.wait(*ticket, raw(rows, 3)), Code::invalid_argument, "another memory"));
  EXPECT_TRUE(fails(memory.wait(*ticket, raw(rows, 2)), Code::invalid_argument, "do not fit"));
  EXPECT_TRUE(fails(memory.wait(*ticket, raw(rows, 3)), Code::invalid_argument, "no lookup"));
  EXPECT_TRUE(fails(memory.prefetch(2, keys(0, 0, 1), Priority::soon), Code::out_of_range, "0..1"));
}

TEST_F(TicketTest, ReportsAFailedReadAndGoesOn) {
  const std::string expected = looked_up(open(Tier::ram), 0, 0, 700);
  for (const ReadMethod method : {ReadMethod::uring, ReadMethod::readahead, ReadMethod::threads}) {
    const Memory memory = open(Tier::direct, method);
    std::string rows;
    os::set_read_fault(
        [](std::uint64_t offset, int result) { return offset > 300'000 ? -EIO : result; });
    auto ticket = memory.prefetch(0, keys(0, 0, 700), Priority::soon);
    ASSERT_TRUE(is_ok(ticket));
    EXPECT_TRUE(fails(memory.wait(*ticket, raw(rows, 2100)), Code::io, "codes0"));
    os::set_read_fault(nullptr);
    auto again = memory.prefetch(0, keys(0, 0, 700), Priority::soon);
    ASSERT_TRUE(is_ok(memory.wait(*again, raw(rows, 2100))));
    ASSERT_EQ(rows, expected);
  }
}

TEST_F(TicketTest, CountsReadsBytesAndWaiting) {
  const Memory memory = open(Tier::direct, ReadMethod::uring);
  std::string rows;
  auto ticket = memory.prefetch(0, keys(0, 0, 700), Priority::soon);
  ASSERT_TRUE(is_ok(memory.wait(*ticket, raw(rows, 2100))));
  const TableStats stats = memory.stats(0);
  EXPECT_GT(stats.reads, 10u);
  EXPECT_GE(stats.read_bytes, stats.reads * 512);
  EXPECT_LE(stats.read_bytes, stats.reads * os::kBlockReadBytesMax);
  EXPECT_GT(stats.wait_ns, 0u);
  EXPECT_EQ(memory.stats(1).reads, 0u);
}

TEST_F(TicketTest, ServesManyThreadsThatInterleaveTicketsAndLookups) {
  const Memory ram = open(Tier::ram);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 14; ++i) expected.push_back(looked_up(ram, i % 2, i * 50, 50));
  for (const ReadMethod method : {ReadMethod::uring, ReadMethod::threads}) {
    const Memory memory = open(Tier::direct, method, 100'000);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        test::Random random(thread);
        LookupWorkspace workspace;
        for (int round = 0; round < 30; ++round) {
          const std::size_t a = random.below(14);
          const std::size_t b = random.below(14);
          const auto table = [](std::size_t i) { return static_cast<int>(i % 2); };
          auto ticket = memory.prefetch(table(a), keys(table(a), a * 50, 50), Priority::soon);
          std::string rows;
          EXPECT_TRUE(is_ok(
              memory.lookup(table(b), keys(table(b), b * 50, 50), raw(rows, 150), workspace)));
          EXPECT_EQ(rows, expected[b]);
          if (random.below(4) == 0) continue;  // given up
          EXPECT_TRUE(is_ok(memory.wait(*ticket, raw(rows, 150))));
          EXPECT_EQ(rows, expected[a]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace engram
