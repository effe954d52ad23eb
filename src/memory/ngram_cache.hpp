// Rows of n-grams met before, in front of a slow tier: one probe finds all of a key's rows.
#pragma once

#include <array>
#include <atomic>
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
// Admission goes by order: an n-gram of order 2 comes in at once, a longer one only when it is met
// a second time (a list of fingerprints remembers the first), because most of those never are.
// Within a set the entry goes that was used least recently, as a clock of two bits tells.
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

  // Copies the rows to `out`, at most rows_bytes; false where they are not here.
  bool find(const Id& id, std::span<std::byte> out);
  // Offers rows that had to be fetched; the cache may decline.
  void offer(const Id& id, std::span<const std::byte> rows);
  // Takes rows that are known to be asked for again.
  void insert(const Id& id, std::span<const std::byte> rows) { insert(id, rows, kMostRecent); }

 private:
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kLocks = 1024;
  static constexpr std::uint8_t kMostRecent = 3;

  struct Set {
    std::array<std::uint64_t, kWays> keys;
    std::array<std::uint32_t, kWays> kinds;  // of table and order; 0: free
    std::array<std::uint8_t, kWays> recency;
  };

  std::byte* rows_at(std::uint64_t set, std::size_t way) const {
    return rows_.get() + (set * kWays + way) * rows_bytes_;
  }
  bool admits(const Id& id, std::uint64_t hash);
  void insert(const Id& id, std::span<const std::byte> rows, std::uint8_t recency);
  static std::size_t victim(Set& set);

  std::size_t rows_bytes_;
  std::uint64_t sets_ = 0;
  std::vector<Set> index_;
  std::unique_ptr<std::byte[]> rows_;                  // [sets, kWays, rows_bytes]
  std::vector<std::atomic<std::uint32_t>> seen_once_;  // fingerprints of declined n-grams
  std::vector<std::mutex> locks_;
};

}  // namespace engram
