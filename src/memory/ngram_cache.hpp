// Rows of n-grams met before, in front of a slow tier: one probe finds all of a key's rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace engram {

// Set-associative, of a fixed number of bytes that are taken when it is made. Any number of threads
// may use it; a set is locked while its rows are copied.
//
// Within a set the entry goes that a clock of three bits finds idle: a use moves it three steps,
// and new n-grams of order 2 start three steps up, longer ones one, because most of those are never
// met again. Simulated on 15 million tokens of documentation and 19 million of code, from 4 MiB to
// 4 GiB, that is the best of what was tried, and above an exact LRU everywhere; a list of n-grams
// met once, that longer ones must be on to come in at all, is below it, for text repeats itself
// soon or never (docs/BENCHMARKS.md).
class NgramCache {
 public:
  // As many n-grams of `rows_bytes` as fit `budget_bytes` with all that belongs to them.
  NgramCache(std::size_t rows_bytes, std::uint64_t budget_bytes);

  // Bytes that are taken; at most the budget.
  std::uint64_t size_bytes() const;
  std::uint64_t capacity() const { return sets_ * kWays; }  // n-grams

  // Which n-gram: rows of two tables or orders are never taken for each other.
  struct Id {
    std::uint64_t key;
    std::uint32_t table;
    std::uint32_t order;
  };

  // Asks for the memory in which find() will look: worth it a few n-grams ahead.
  void prefetch(const Id& id) const;
  // Copies the rows to `out`, at most rows_bytes; false where they are not here.
  bool find(const Id& id, std::span<std::byte> out);
  // Keeps rows that had to be fetched.
  void offer(const Id& id, std::span<const std::byte> rows);
  // Takes rows that are known to be asked for again.
  void insert(const Id& id, std::span<const std::byte> rows);

 private:
  static constexpr std::size_t kWays = 16;
  static constexpr std::size_t kLocks = 1024;
  static constexpr std::uint8_t kMostRecent = 7;
  static constexpr std::uint8_t kStep = 3;

  struct Set {
    std::array<std::uint64_t, kWays> keys;
    std::array<std::uint32_t, kWays> kinds;  // of table and order; 0: free
    std::array<std::uint8_t, kWays> recency;
  };

  std::byte* rows_at(std::uint64_t set, std::size_t way) const {
    return rows_.get() + (set * kWays + way) * rows_bytes_;
  }
  void put(const Id& id, std::span<const std::byte> rows, std::uint8_t recency);
  // kWays where the set has it not.
  static std::size_t way_of(const Set& set, std::uint64_t key, std::uint32_t kind);
  static std::size_t victim(Set& set);

  std::size_t rows_bytes_;
  std::uint64_t sets_ = 0;
  std::vector<Set> index_;
  std::unique_ptr<std::byte[]> rows_;  // [sets, kWays, rows_bytes]
  std::vector<std::mutex> locks_;
};

}  // namespace engram
