// What both ways of exchanging rows have in common: one lookup, this rank's rows, the interface.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engram/hash.hpp"
#include "engram/mpi.hpp"
#include "engram/row_store.hpp"

#include "channel.hpp"

namespace engram::mpi {

// One lookup in one table, from begin to finish.
struct Part {
  std::size_t table = 0;
  std::vector<std::vector<RowId>> wanted;        // [world]: rows by owner
  std::vector<std::vector<std::size_t>> places;  // [world]: their places in the lookup
  std::vector<std::byte> rows;                   // [count, row_bytes], in the lookup's order
  bool sent = false;
  bool over = false;
  Status status;  // of this lookup alone

  // This rank's own rows, in the scratch of its store.
  FetchScratch own;
  std::vector<RowView> own_views;
};

// This rank's rows of every table, and who owns the others.
struct OwnRows {
  std::unique_ptr<Channel> channel;
  std::vector<std::unique_ptr<RowStore>> stores;  // by table
  std::vector<ShardMap> maps;                     // by table

  const RowLayout& layout(std::size_t table) const { return stores[table]->source().layout; }
  std::size_t rank() const { return static_cast<std::size_t>(channel->rank()); }
  // Sorts a lookup by owner and begins to read what is this rank's. A row that nobody owns becomes
  // the part's status, and the part one without rows: the other ranks count on it.
  void plan(std::size_t table, std::span<const RowId> rows, Priority priority, Part& part);
  // This rank's own rows of the part to their places.
  Status take_own(Part& part) const;
};

// One stored row: codes, scales, biases.
inline void pack_row(const RowSizes& sizes, const RowView& view, std::byte* out) {
  std::memcpy(out, view.codes, sizes.codes);
  if (sizes.scales != 0) std::memcpy(out + sizes.codes, view.scales, sizes.scales);
  if (sizes.biases != 0) std::memcpy(out + sizes.codes + sizes.scales, view.biases, sizes.biases);
}
// Asks for the lines of a row that is packed soon.
inline void prefetch_row(const RowSizes& sizes, const RowView& view) {
  for (std::size_t at = 0; at < sizes.codes; at += 64) __builtin_prefetch(view.codes + at);
  if (sizes.scales != 0) __builtin_prefetch(view.scales);
}
// Rows ahead that are asked for: as many as a core has misses to spare.
inline constexpr std::size_t kPrefetchRows = 8;

// Thread-safe. Calls are collective, in one order on all ranks.
class RowExchange {
 public:
  RowExchange() = default;
  RowExchange(const RowExchange&) = delete;
  RowExchange& operator=(const RowExchange&) = delete;
  virtual ~RowExchange() = default;

  // An error is the group's: nothing works from then on.
  virtual Result<std::shared_ptr<Part>> begin(std::size_t table, std::span<const RowId> rows,
                                              Priority priority) = 0;
  // Whether finish would not wait.
  virtual bool ready(Part& part) = 0;
  // Waits for part.rows.
  virtual Status finish(Part& part) = 0;
  virtual ExchangeStats stats() const = 0;
  // A part that its lookup needs no more, over or not: for lookups to come.
  virtual void give_back(std::shared_ptr<Part> part) = 0;
};

std::unique_ptr<RowExchange> make_packed_exchange(OwnRows own);
std::unique_ptr<RowExchange> make_reduced_exchange(OwnRows own);

}  // namespace engram::mpi
