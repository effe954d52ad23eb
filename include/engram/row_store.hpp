// Fetches the stored bytes of rows from one tier. Knows bytes, not numbers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/export.h"
#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

// The stored bytes of one row, as RowLayout sizes them. Null where the format has no such part.
// The pointers stay valid as long as the store, and until the next fetch with the same scratch.
struct RowView {
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  const std::byte* biases = nullptr;
};

// The view of a row whose codes, scales and biases follow each other.
inline RowView packed_view(const RowSizes& sizes, const std::byte* row) {
  return {row, sizes.scales != 0 ? row + sizes.codes : nullptr,
          sizes.biases != 0 ? row + sizes.codes + sizes.scales : nullptr};
}

// What a store is and what it got from the system.
struct StoreReport {
  Tier tier = Tier::mmap;
  std::uint64_t table_bytes = 0;     // of rows
  std::uint64_t resident_bytes = 0;  // of them held in memory by now, one copy of several
  std::uint64_t huge_bytes = 0;      // of those backed by huge pages, once all are loaded
  Status loading;                    // why loading behind served rows has stopped, if it has
};

// Reads that fetches made of their files, and the bytes of those reads.
struct ReadCounts {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
};

// What a store of another library keeps in a scratch, from begin on and as long as its views are
// used. Destroying it gives the fetch up.
class PendingFetch {
 public:
  virtual ~PendingFetch() = default;
  // Whether finish would not wait; never waits itself.
  virtual bool ready() = 0;
};

// What a tier that has no rows in memory reads them into; grows to the largest batch and stays. One
// thread and one fetch at a time; stores of any tier may share one. Movable.
class ENGRAM_API FetchScratch {
 public:
  FetchScratch();
  FetchScratch(FetchScratch&&) noexcept;
  FetchScratch& operator=(FetchScratch&&) noexcept;
  ~FetchScratch();

  // Of a fetch that has begun: whether finish would not wait. Moves a long queue on; never waits.
  bool ready();
  // Gives a fetch up that has begun; waits for reads in flight.
  void cancel();
  // For stores of other libraries.
  void hold(std::unique_ptr<PendingFetch> pending);
  PendingFetch* held() const;
  // Of all fetches so far. The page cache's own reads are not seen.
  const ReadCounts& counts() const;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// One table in one tier. Immutable: any number of threads may fetch at once with distinct views.
class ENGRAM_API RowStore {
 public:
  virtual ~RowStore() = default;

  virtual const TableSource& source() const = 0;
  virtual StoreReport report() const = 0;
  // Whether every begin and finish matters to others even where it asks for no row.
  virtual bool collective() const { return false; }

  // rows [count] -> views [count]. An error fails the whole call and leaves views unspecified;
  // never a zero row in place of a failed one. Code::out_of_range names the row.
  // Code::corrupt where a file ended too soon, changed while open, or a page fails its check.
  Status fetch(std::span<const RowId> rows, std::span<RowView> views, FetchScratch& scratch) const {
    ENGRAM_TRY(begin(rows, scratch, Priority::now));
    return finish(rows, views, scratch);
  }

  // A fetch in two steps. `begin` asks for what is not in memory and does not wait; `finish`, with
  // the same rows and scratch, waits and makes the views. In between the scratch serves no other.
  // After an error of `begin` there is nothing to finish.
  virtual Status begin(std::span<const RowId> rows, FetchScratch& scratch,
                       Priority priority) const = 0;
  virtual Status finish(std::span<const RowId> rows, std::span<RowView> views,
                        FetchScratch& scratch) const = 0;
};

// How tier ram takes and fills its memory.
struct RamOptions {
  HugePages pages = HugePages::transparent;
  NumaPolicy numa = NumaPolicy::local;
  bool lock = false;  // never swap it
  // Open at once and load behind: rows come from the files until their turn has come. The store
  // then has threads of its own until all is loaded, progress is not called (report() says how far
  // it is), and a failure to load leaves rows where they were.
  bool serve_while_loading = false;
};

// The memory that tier shared attaches to.
struct SharedOptions {
  std::string name;                   // 1 to 200 of A-Z a-z 0-9 . _ -
  std::chrono::milliseconds wait{0};  // for it to appear and to be filled
};

// Some rows of one layer's table.
struct LayerRows {
  std::int64_t layer_id = 0;
  RowRange rows;
};

struct StoreOptions {
  Tier tier = Tier::mmap;
  int threads = 1;                                 // that load a `ram` table
  Progress progress;                               // bytes loaded; `mmap` never calls it
  ReadMethod read_method = ReadMethod::automatic;  // of `direct`
  // `direct`: scales that lie in a tensor of their own (2.9 GiB a layer in the release) are kept in
  // memory; otherwise every row of such a table is two reads.
  bool resident_scales = true;
  RamOptions ram;
  // `ram`: only these rows are kept in memory; the others are read as tier direct reads them.
  std::vector<LayerRows> resident;
  SharedOptions shared;
};

// Opens one table. Code::corrupt where a file is not as its header was read; Code::out_of_memory,
// before anything is loaded, where a `ram` table does not fit the machine or its cgroup. `shared`:
// Code::not_found, Code::unavailable while it is being filled, and Code::corrupt where it is of
// another model, of an earlier state of these files, or was left unfinished.
ENGRAM_API Result<std::unique_ptr<RowStore>> open_row_store(const TableSource& source,
                                                            const StoreOptions& options);

// Opens all tables of a model in order, or none: a `ram` plan is judged as a whole.
ENGRAM_API Result<std::vector<std::unique_ptr<RowStore>>> open_row_stores(
    std::span<const TableSource> sources, const StoreOptions& options);

// Fills named memory of this host (a file of /dev/shm) with the tables, for tier shared of any
// process. It stays when this process ends, until unload_shared or the next boot; if this process
// ends early, no one attaches to what is left, and the next load replaces it. Of the options,
// threads and progress are used. Code::out_of_memory before anything is copied, with the size that
// is needed; Code::invalid_argument where the name is taken or not allowed.
ENGRAM_API Status load_shared(std::span<const TableSource> sources, const std::string& name,
                              const StoreOptions& options);
// Removes the name; processes that have attached keep their rows until they close.
// Code::not_found; Code::unavailable while it is being filled.
ENGRAM_API Status unload_shared(const std::string& name);

// What tier automatic picks, and the reason in a sentence.
struct TierChoice {
  Tier tier = Tier::mmap;
  std::string reason;
};
// From the tables' size and format, memory and cgroup, page cache, file system, and a few reads.
ENGRAM_API Result<TierChoice> choose_tier(std::span<const TableSource> sources,
                                          const StoreOptions& options);

// Asks the kernel to forget what the page cache has of the tables' files: for cold measurements.
// Pages that are mapped stay, so close stores of tier mmap first.
ENGRAM_API Status drop_cached(std::span<const TableSource> sources);

// The time of reads of 4 KiB at random offsets of a table's file, past the page cache, and how they
// were made.
struct ReadProbe {
  ReadMethod method = ReadMethod::automatic;
  double seconds = 0;
};
// All `count` at once, as many in flight as tier direct has. `seed` decides the offsets.
ENGRAM_API Result<ReadProbe> probe_reads(const TableSource& source, std::size_t count,
                                         ReadMethod method, std::uint64_t seed);

}  // namespace engram
