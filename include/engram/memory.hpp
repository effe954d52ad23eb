// Keys or row ids to decoded rows: unique, fetch, decode, scatter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What became of the keys of one table and order since the memory was made.
struct OrderStats {
  std::uint64_t keys = 0;    // asked for
  std::uint64_t unique = 0;  // after making each batch unique
  std::uint64_t hits = 0;    // of those, found in the cache
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

  // [orders] Requires a valid table index.
  std::vector<OrderStats> stats(int table_index) const;
  // N-grams that the cache can hold; 0 without one.
  std::uint64_t cache_capacity() const;

  // keys [length, orders] -> output rows [length, orders * heads]. Equal keys of one order are read
  // and decoded once.
  Status lookup(int table_index, std::span<const Key> keys, const RowOutput& output,
                LookupWorkspace& workspace) const;

  // rows [count], table-global ids -> output rows [count]. Equal ids are read and decoded once.
  Status lookup_rows(int table_index, std::span<const RowId> rows, const RowOutput& output,
                     LookupWorkspace& workspace) const;

 private:
  struct Request;
  struct Counters;
  Memory(Hasher hasher, std::vector<std::unique_ptr<RowStore>> stores, NanPolicy nan_policy);
  Result<Request> check(int table_index, std::size_t row_count, const RowOutput& output) const;
  Status run(const Request& request, LookupWorkspace::Impl& scratch) const;
  Status fetch_missing(const Request& request, LookupWorkspace::Impl& scratch) const;
  void count(int table_index, LookupWorkspace::Impl& scratch) const;
  Status decode(const Request& request, LookupWorkspace::Impl& scratch) const;

  Hasher hasher_;
  std::vector<std::unique_ptr<RowStore>> stores_;
  NanPolicy nan_policy_;
  std::unique_ptr<NgramCache> cache_;  // or null
  std::unique_ptr<Counters> counters_;
};

}  // namespace engram
