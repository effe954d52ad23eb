// What one lookup carries from plan to output. Workspaces and tickets hold one and reuse it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engram/memory.hpp"

#include "memory/first_seen.hpp"
#include "memory/ngram_cache.hpp"

namespace engram {

// Output rows come in units that are read once and copied wherever they repeat: a key's heads, or a
// single row.
struct LookupWorkspace::Impl {
  struct Repeat {
    std::size_t unit;
    std::size_t first_unit;  // equal to it, and decoded
  };

  // The plan.
  int table_index = 0;
  const RowStore* store = nullptr;
  std::size_t rows_per_unit = 1;
  std::size_t row_count = 0;       // rows of the output
  std::vector<std::size_t> units;  // distinct ones, by their place in the output
  std::vector<RowId> rows;         // of those: [units, rows_per_unit]
  std::vector<RowView> views;      // of rows
  std::vector<Repeat> repeats;
  // With a cache: the identities of units, what it had, and the units that it had not.
  std::vector<NgramCache::Id> ids;
  std::vector<std::byte> cached;  // [units, rows_per_unit * row_bytes]
  std::vector<std::size_t> missing;
  std::vector<RowId> missing_rows;
  std::vector<RowView> missing_views;

  // Counted, until count() adds it up.
  std::vector<OrderStats> orders;
  ReadCounts reads;  // before
  std::uint64_t wait_ns = 0;

  // Scratch memory.
  FirstSeen first_seen;
  FetchScratch fetch;
  std::vector<RowId> all_rows;      // [all units * rows_per_unit], in output order
  std::vector<std::byte> packed;    // a block of rows
  std::vector<std::byte*> outputs;  // where each of them goes

  // Forgets the lookup before.
  void reset(int table, const RowStore& from, std::size_t unit_rows, std::size_t unit_count);
  // The rows that the store must bring, and their views.
  const std::vector<RowId>& wanted() const { return ids.empty() ? rows : missing_rows; }
  std::span<RowView> wanted_views() { return ids.empty() ? views : missing_views; }
};

// views [count] -> packed [count, row_bytes]: codes, scales, biases.
void pack_rows(const RowLayout& layout, std::span<const RowView> views, std::byte* packed);

// Workspaces of tickets that were spent.
struct Ticket::Pool {
  std::unique_ptr<LookupWorkspace::Impl> take();
  void put(std::unique_ptr<LookupWorkspace::Impl> lookup);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<LookupWorkspace::Impl>> free_;
};

}  // namespace engram
