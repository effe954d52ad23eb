// Tier ram: a private copy of the table, codes and scales interleaved, in huge pages.
#include <algorithm>
#include <atomic>
#include <thread>

#include "base/parallel.hpp"
#include "checkpoint/table_reader.hpp"
#include "os/memory.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

// Rows read at once: about 8 MiB, long enough for sequential speed, short enough for progress.
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;

class RamStore final : public RowStore {
 public:
  RamStore(TableSource source, os::HugeBuffer rows, std::uint64_t huge_bytes)
      : source_(std::move(source)), rows_(std::move(rows)), huge_bytes_(huge_bytes) {}

  const TableSource& source() const override { return source_; }
  StoreReport report() const override { return {Tier::ram, source_.held_bytes(), huge_bytes_}; }

  Status begin(std::span<const RowId> rows, FetchScratch& /*scratch*/,
               Priority /*priority*/) const override {
    return check_rows(source_, rows);
  }

  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& /*scratch*/) const override {
    ENGRAM_TRY(check_views(rows, views));
    const std::byte* base = rows_.bytes().data();
    const std::size_t row_bytes = source_.layout.row_bytes();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      views[i] = packed_view(source_.layout, base + *source_.position(rows[i]) * row_bytes);
    }
    return {};
  }

 private:
  TableSource source_;
  os::HugeBuffer rows_;  // [held rows, row_bytes]
  std::uint64_t huge_bytes_;
};

Status load(const TableReader& reader, const StoreOptions& options, std::span<std::byte> rows) {
  const std::size_t row_bytes = reader.source().layout.row_bytes();
  const std::uint64_t row_count = reader.source().held_count();
  const std::uint64_t chunk_rows = std::max<std::uint64_t>(1, kChunkBytes / row_bytes);
  std::atomic<std::uint64_t> loaded{0};
  const std::thread::id caller = std::this_thread::get_id();
  return parallel_for(
      (row_count + chunk_rows - 1) / chunk_rows, options.threads, [&](std::size_t chunk) -> Status {
        const std::uint64_t first = chunk * chunk_rows;
        const std::uint64_t count = std::min(chunk_rows, row_count - first);
        const std::uint64_t bytes = count * row_bytes;
        ENGRAM_TRY(reader.read(first, count, rows.subspan(first * row_bytes, bytes)));
        const std::uint64_t done = loaded.fetch_add(bytes) + bytes;
        if (options.progress && std::this_thread::get_id() == caller) {
          options.progress(done, row_count * row_bytes);
        }
        return {};
      });
}

}  // namespace

Result<std::unique_ptr<RowStore>> open_ram_store(const TableSource& source,
                                                 const StoreOptions& options) {
  const auto reader = TableReader::open(source);
  if (!reader) return reader.error();
  auto buffer = os::HugeBuffer::allocate(source.held_bytes());
  if (!buffer) return std::move(buffer).error();
  ENGRAM_TRY(load(*reader, options, buffer->bytes()));
  const std::uint64_t huge_bytes = std::min(source.held_bytes(), buffer->huge_bytes());
  return std::unique_ptr<RowStore>(
      std::make_unique<RamStore>(source, *std::move(buffer), huge_bytes));
}

}  // namespace engram
