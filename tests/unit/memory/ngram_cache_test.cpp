// The n-gram cache: what it keeps and never mixes up, and that it beats a row cache.
#include "memory/ngram_cache.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <thread>
#include <unordered_map>

#include "tests/support/random.hpp"

namespace engram {
namespace {

constexpr std::size_t kRowsBytes = 8 * 33;

// Rows that follow from the id, so that a wrong answer shows.
std::vector<std::byte> rows_of(const NgramCache::Id& id) {
  test::Random random(id.key * 31 + id.table * 7 + id.order);
  std::vector<std::byte> rows(kRowsBytes);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random.next());
  return rows;
}

bool has(NgramCache& cache, const NgramCache::Id& id) {
  std::vector<std::byte> rows(kRowsBytes);
  if (!cache.find(id, rows)) return false;
  EXPECT_EQ(rows, rows_of(id));
  return true;
}

TEST(NgramCache, StaysWithinItsBudget) {
  for (const std::uint64_t budget : {0ull, 1000ull, 100'000ull, 4'000'000ull}) {
    const NgramCache cache(kRowsBytes, budget);
    EXPECT_LE(cache.size_bytes(), budget);
    EXPECT_GE(cache.size_bytes() + 16 * (kRowsBytes + 16), budget);
  }
  NgramCache nothing(kRowsBytes, 10);
  nothing.offer({1, 0, 0}, rows_of({1, 0, 0}));
  EXPECT_FALSE(has(nothing, {1, 0, 0}));
}

TEST(NgramCache, KeepsShortAndUsedNgramsLonger) {
  constexpr std::uint64_t kKinds = 16;  // n-grams of a set
  NgramCache cache(kRowsBytes, kKinds * (kRowsBytes + 16));
  ASSERT_EQ(cache.capacity(), kKinds);
  const auto offer = [&](const NgramCache::Id& id) { cache.offer(id, rows_of(id)); };
  for (std::uint64_t key = 0; key < kKinds; ++key) {
    offer({key, 0, key % 2 == 0 ? 0u : 2u});  // short ones have even keys
  }
  EXPECT_TRUE(has(cache, {3, 0, 2}));
  EXPECT_FALSE(has(cache, {3, 1, 2}));  // the same key of another table, and of another order
  EXPECT_FALSE(has(cache, {3, 0, 1}));
  // Seven more push the long ones out that nobody has asked for.
  for (std::uint64_t key = 100; key < 107; ++key) offer({key, 0, 2});
  for (std::uint64_t key = 0; key < kKinds; key += 2) EXPECT_TRUE(has(cache, {key, 0, 0})) << key;
  for (std::uint64_t key = 5; key < kKinds; key += 2) EXPECT_FALSE(has(cache, {key, 0, 2})) << key;
  EXPECT_TRUE(has(cache, {3, 0, 2}));
  // What a corpus has shown to be hot stays longest.
  cache.insert({200, 0, 2}, rows_of({200, 0, 2}));
  for (std::uint64_t key = 300; key < 330; ++key) offer({key, 0, 2});
  EXPECT_TRUE(has(cache, {200, 0, 2}));
}

TEST(NgramCache, GivesRightRowsUnderPressureFromManyThreads) {
  NgramCache cache(kRowsBytes, 300'000);  // about a thousand n-grams, and ten thousand ids
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&cache, seed] {
      test::Random random(seed);
      for (int i = 0; i < 20'000; ++i) {
        const NgramCache::Id id{random.below(random.below(10'000) + 1),
                                static_cast<std::uint32_t>(random.below(2)),
                                static_cast<std::uint32_t>(random.below(3))};
        if (!has(cache, id)) cache.offer(id, rows_of(id));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A least-recently-used cache of single rows, in the same bytes without counting its own index.
class RowLru {
 public:
  explicit RowLru(std::size_t rows) : rows_(rows) {}
  bool touch(std::uint64_t row) {
    const auto found = places_.find(row);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    order_.push_front(row);
    places_[row] = order_.begin();
    if (order_.size() > rows_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    return false;
  }

 private:
  std::size_t rows_;
  std::list<std::uint64_t> order_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

// A stream as text has it: frequencies fall as rank^-0.8, and the longer the n-gram, the more kinds
// there are. Source of the slope: measured on documentation and code, docs of the paper's peers.
TEST(NgramCache, HitsMoreThanARowCacheOfTheSameBytes) {
  constexpr std::array<double, 3> kKinds = {20'000, 120'000, 400'000};
  for (const std::uint64_t budget : {200'000ull, 1'000'000ull, 5'000'000ull}) {
    NgramCache cache(kRowsBytes, budget);
    RowLru rows(budget / 33);
    test::Random random(9);
    std::uint64_t hits = 0;
    std::uint64_t row_hits = 0;
    constexpr int kTokens = 60'000;
    for (int token = 0; token < kTokens; ++token) {
      for (std::uint32_t order = 0; order < 3; ++order) {
        const double uniform = 0.5 * (random.symmetric() + 1);
        // The inverse of the distribution of rank^-0.8 over `kinds` ranks.
        const NgramCache::Id id{static_cast<std::uint64_t>(kKinds[order] * std::pow(uniform, 5.0)),
                                0, order};
        std::vector<std::byte> found(kRowsBytes);
        const bool hit = cache.find(id, found);
        hits += hit ? 8 : 0;
        if (!hit) cache.offer(id, rows_of(id));
        for (std::uint64_t head = 0; head < 8; ++head) {
          row_hits += rows.touch(id.key * 64 + order * 8 + head) ? 1 : 0;
        }
      }
    }
    EXPECT_GT(hits, row_hits) << budget << " bytes: of " << 24 * kTokens << " rows";
  }
}

}  // namespace
}  // namespace engram
