// Tier shared: rows in memory that one process has filled for all of the host.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "checkpoint/table_reader.hpp"
#include "os/memory.hpp"
#include "store/resident_rows.hpp"
#include "store/shared_segment.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

class SharedStore final : public RowStore {
 public:
  SharedStore(TableSource source, std::shared_ptr<const SharedSegment> segment,
              std::span<const std::byte> rows)
      : source_(std::move(source)), segment_(std::move(segment)), rows_(rows) {}

  const TableSource& source() const override { return source_; }
  StoreReport report() const override {
    return {Tier::shared, source_.held_bytes(), source_.held_bytes(), 0, {}};
  }

  Status begin(std::span<const RowId> rows, FetchScratch& /*scratch*/,
               Priority /*priority*/) const override {
    return check_rows(source_, rows);
  }

  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& /*scratch*/) const override {
    ENGRAM_TRY(check_views(rows, views));
    const RowSizes sizes = source_.layout.sizes();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      views[i] = packed_view(sizes, rows_.data() + *source_.position(rows[i]) * sizes.total());
    }
    return {};
  }

 private:
  TableSource source_;
  std::shared_ptr<const SharedSegment> segment_;
  std::span<const std::byte> rows_;  // [held rows, row_bytes], of the segment
};

// A few rows of the files against the memory: files of equal size and time can still be others.
Status compare_samples(const TableSource& source, std::span<const std::byte> rows,
                       const std::string& where) {
  constexpr std::uint64_t kSamples = 64;
  const auto reader = TableReader::open(source);
  if (!reader) return reader.error();
  std::vector<std::byte> row(source.layout.row_bytes());
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t position = source.held_count() * i / kSamples;
    ENGRAM_TRY(reader->read(position, 1, row));
    if (std::memcmp(row.data(), rows.data() + position * row.size(), row.size()) == 0) continue;
    return make_error(Code::corrupt, "{}: layer {}: row {} is not as in {}", where, source.layer_id,
                      source.global_row(position), source.weight.path);
  }
  return {};
}

// What is left of all tables' loading.
struct LoadProgress {
  std::atomic<std::uint64_t> done{0};
  std::uint64_t total = 0;
};

Status fill(const SharedSegment& segment, const TableSource& source, const StoreOptions& options,
            LoadProgress& progress) {
  const auto reader = TableReader::open(source);
  if (!reader) return reader.error();
  const auto rows = segment.rows(source);
  if (!rows) return rows.error();
  const ResidentRows plan(source, {});
  const std::size_t row_bytes = source.layout.row_bytes();
  const std::thread::id caller = std::this_thread::get_id();
  const auto begin = static_cast<std::uint64_t>(rows->data() - segment.memory().bytes().data());
  return parallel_for(plan.chunks().size(), options.threads, [&](std::size_t i) -> Status {
    const ResidentRows::Chunk& chunk = plan.chunks()[i];
    const std::uint64_t at = chunk.first * row_bytes;
    const std::uint64_t bytes = chunk.count * row_bytes;
    ENGRAM_TRY(segment.memory().reserve(begin + at, bytes));
    ENGRAM_TRY(reader->read(chunk.position, chunk.count, rows->subspan(at, bytes)));
    const std::uint64_t done = progress.done.fetch_add(bytes) + bytes;
    if (options.progress && std::this_thread::get_id() == caller) {
      options.progress(done, progress.total);
    }
    return {};
  });
}

}  // namespace

Status load_shared(std::span<const TableSource> sources, const std::string& name,
                   const StoreOptions& options) {
  LoadProgress progress;
  for (const TableSource& source : sources) progress.total += source.held_bytes();
  ENGRAM_TRY(check_memory(progress.total, sources.size(), "shared memory"));
  auto segment = SharedSegment::create(sources, name);
  if (!segment) return std::move(segment).error();
  for (const TableSource& source : sources) {
    Status filled = fill(*segment, source, options, progress);
    if (filled) continue;
    // The lock goes first, or the name could not.
    { const SharedSegment gone = *std::move(segment); }
    (void)os::SharedMemory::remove(name);
    return filled;
  }
  segment->set_ready();
  return {};
}

Status unload_shared(const std::string& name) { return os::SharedMemory::remove(name); }

Result<std::vector<std::unique_ptr<RowStore>>> open_shared_stores(
    std::span<const TableSource> sources, const SharedOptions& options) {
  auto attached = SharedSegment::attach(options);
  if (!attached) return std::move(attached).error();
  const auto segment = std::make_shared<const SharedSegment>(*std::move(attached));
  std::vector<std::unique_ptr<RowStore>> stores;
  for (const TableSource& source : sources) {
    const auto rows = segment->rows(source);
    if (!rows) return rows.error();
    ENGRAM_TRY(compare_samples(source, *rows, segment->path()));
    stores.push_back(std::make_unique<SharedStore>(source, segment, *rows));
  }
  return stores;
}

}  // namespace engram
