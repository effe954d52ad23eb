// Keys or row ids to decoded rows: unique, fetch, decode, scatter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "engram/export.h"
#include "engram/hash.hpp"
#include "engram/row_store.hpp"
#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

// Where a lookup writes: row i at bytes[i * stride_bytes], naturally aligned for the format. The
// memory is the caller's (pinned, shared, anything) and is never kept.
struct RowOutput {
  OutputFormat format = OutputFormat::bf16;
  std::span<std::byte> bytes;
  std::size_t stride_bytes = 0;  // 0: rows lie one after another
};

// Scratch memory that lookups reuse: after the largest batch has been seen, none allocates.
// One thread at a time. Movable.
class ENGRAM_API LookupWorkspace {
 public:
  LookupWorkspace();
  LookupWorkspace(LookupWorkspace&&) noexcept;
  LookupWorkspace& operator=(LookupWorkspace&&) noexcept;
  ~LookupWorkspace();

  // Of the last lookup: rows written, and distinct rows read and decoded for them.
  std::uint64_t row_count() const;
  std::uint64_t unique_row_count() const;

 private:
  friend class Memory;
  friend class Ticket;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A lookup by keys that has begun: its reads are on their way. Movable; destroying one gives it up.
// One thread at a time; the memory must outlive it.
class ENGRAM_API Ticket {
 public:
  Ticket();
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket();

  // Whether there is a lookup to wait for: not before a prefetch, after a wait, or once cancelled.
  bool pending() const { return lookup_ != nullptr; }
  // Whether wait would not wait. Moves a long queue of reads on; never blocks.
  bool ready() const;
  // Gives the lookup up. Reads that the device has begun are waited for.
  void cancel();

 private:
  friend class Memory;
  struct Pool;
  std::shared_ptr<Pool> pool_;  // that the workspace goes back to
  std::unique_ptr<LookupWorkspace::Impl> lookup_;
};

// What became of the keys of one table and order since the memory was made.
struct OrderStats {
  std::uint64_t keys = 0;    // asked for
  std::uint64_t unique = 0;  // after making each batch unique
  std::uint64_t hits = 0;    // of those, found in the cache
};

// The same of one table, rows looked up by id included in the last three.
struct TableStats {
  std::vector<OrderStats> orders;
  std::uint64_t reads = 0;       // of files, by tiers that read them
  std::uint64_t read_bytes = 0;  // of those
  std::uint64_t wait_ns = 0;     // spent in the store
};

// An n-gram of one table.
struct TableNgram {
  Key key = 0;
  std::int32_t table_index = 0;
  std::int32_t order = 2;
  friend bool operator==(const TableNgram&, const TableNgram&) = default;
};

class NgramCache;

// All tables of a model. Immutable; any number of threads may look up, each with its own
// workspace. A failed lookup leaves the output unspecified and says which row was at fault.
class ENGRAM_API Memory {
 public:
  // One store per layer of the spec, in its order. `cache_bytes`: a hard limit on memory for rows
  // of n-grams met before, shared by all tables; pays where rows are slow to fetch. Its size is
  // taken at once: Code::invalid_argument where it holds less than 64 n-grams.
  static Result<Memory> create(Hasher hasher, std::vector<std::unique_ptr<RowStore>> stores,
                               NanPolicy nan_policy, std::uint64_t cache_bytes = 0);
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;
  ~Memory();

  const Hasher& hasher() const { return hasher_; }
  const RowStore& store(int table_index) const { return *stores_[table_index]; }
  int table_count() const { return static_cast<int>(stores_.size()); }
  // Bytes of one output row; raw rows of two tables may differ. Requires a valid table index.
  std::size_t output_bytes(int table_index, OutputFormat format) const;

  // Requires a valid table index.
  TableStats stats(int table_index) const;
  // N-grams that the cache can hold; 0 without one.
  std::uint64_t cache_capacity() const;

  // Fetches n-grams into the cache before anyone asks, the first ones first where it cannot hold
  // them all, and a batch at a time in the order of the file. Others may look up meanwhile.
  // `progress` counts n-grams. Code::invalid_argument without a cache, Code::unavailable once
  // `stop` has asked for an end.
  Status warm(std::span<const TableNgram> ngrams, const Progress& progress = {},
              const std::stop_token& stop = {}) const;

  // keys [length, orders] -> output rows [length, orders * heads]. Equal keys of one order are read
  // and decoded once.
  Status lookup(int table_index, std::span<const Key> keys, const RowOutput& output,
                LookupWorkspace& workspace) const;

  // rows [count], table-global ids -> output rows [count]. Equal ids are read and decoded once.
  Status lookup_rows(int table_index, std::span<const RowId> rows, const RowOutput& output,
                     LookupWorkspace& workspace) const;

  // The first half of a lookup by keys: asks for what neither the store nor the cache has in memory
  // and returns. No thread is handed anything: for decode-size batches that would cost more than
  // the lookup. Begin both layers of a step before waiting for the first.
  Result<Ticket> prefetch(int table_index, std::span<const Key> keys, Priority priority) const;
  // The second half: the same rows as lookup. The ticket is spent, also on error;
  // Code::invalid_argument without one pending.
  Status wait(Ticket& ticket, const RowOutput& output) const;

 private:
  struct Counters;
  using Lookup = LookupWorkspace::Impl;
  Memory(Hasher hasher, std::vector<std::unique_ptr<RowStore>> stores, NanPolicy nan_policy);
  Status check_table(int table_index, std::size_t row_count) const;
  Result<RowOutput> check_output(int table_index, std::size_t row_count,
                                 const RowOutput& output) const;
  Status plan(int table_index, std::span<const Key> keys, Lookup& lookup) const;
  Status begin(Lookup& lookup, Priority priority) const;
  Status finish(Lookup& lookup, const RowOutput& output) const;
  void find_cached(Lookup& lookup) const;
  void offer_fetched(Lookup& lookup) const;
  Status decode(const RowOutput& output, Lookup& lookup) const;
  Status warm_batch(std::span<const TableNgram> ngrams, Lookup& lookup) const;
  void count(const Lookup& lookup) const;

  Hasher hasher_;
  std::vector<std::unique_ptr<RowStore>> stores_;
  NanPolicy nan_policy_;
  std::unique_ptr<NgramCache> cache_;  // or null
  std::unique_ptr<Counters> counters_;
  std::shared_ptr<Ticket::Pool> tickets_;
};

}  // namespace engram
