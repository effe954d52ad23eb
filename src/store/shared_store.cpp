// Tier shared: rows in memory that one process has filled for all of the host.
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "checkpoint/table_reader.hpp"
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

Status fill(const SharedSegment& segment, const TableSource& source, int threads,
            const Progress& progress) {
  const auto reader = TableReader::open(source);
  if (!reader) return reader.error();
  const auto rows = segment.rows(source);
  if (!rows) return rows.error();
  const std::size_t row_bytes = source.layout.row_bytes();
  const auto begin = static_cast<std::uint64_t>(rows->data() - segment.memory().bytes().data());
  ResidentRows plan(source, {});
  return plan.load(threads, row_bytes, progress, [&](const ResidentRows::Chunk& chunk) -> Status {
    const std::uint64_t at = chunk.first * row_bytes;
    const std::uint64_t bytes = chunk.count * row_bytes;
    ENGRAM_TRY(segment.memory().reserve(begin + at, bytes));
    return reader->read(chunk.position, chunk.count, rows->subspan(at, bytes));
  });
}

}  // namespace

Status load_shared(std::span<const TableSource> sources, const std::string& name,
                   const StoreOptions& options) {
  std::uint64_t total = 0;
  for (const TableSource& source : sources) total += source.held_bytes();
  ENGRAM_TRY(check_memory(total, sources.size(), "shared memory"));
  auto segment = SharedSegment::create(sources, name);
  if (!segment) return std::move(segment).error();
  std::uint64_t before = 0;  // bytes of tables that are loaded
  Progress progress;
  if (options.progress) {
    progress = [&](std::uint64_t done, std::uint64_t) { options.progress(before + done, total); };
  }
  for (const TableSource& source : sources) {
    Status filled = fill(*segment, source, options.threads, progress);
    before += source.held_bytes();
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
