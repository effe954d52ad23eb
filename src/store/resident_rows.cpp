// Which rows of a table are kept in memory, and which of those are there by now.
#include "store/resident_rows.hpp"

#include <algorithm>
#include <thread>

#include "base/parallel.hpp"

namespace engram {
namespace {

// About 8 MiB: long enough for sequential speed, short enough for progress.
constexpr std::uint64_t kChunkBytes = std::uint64_t{8} << 20;

// Positions [begin, end) in the file.
using Positions = std::vector<RowRange>;

Positions positions_of(const TableSource& source, const RowRange& rows) {
  Positions positions;
  std::uint64_t before = 0;
  const std::vector<RowRange> everything = {{0, source.row_count}};
  for (const RowRange& held : source.held ? *source.held : everything) {
    const std::uint64_t begin = std::max(rows.begin, held.begin);
    const std::uint64_t end = std::min(rows.end, held.end);
    if (begin < end) positions.push_back({before + begin - held.begin, before + end - held.begin});
    before += held.count();
  }
  return positions;
}

// Ascending, and joined where they meet.
Positions joined(Positions positions) {
  std::sort(positions.begin(), positions.end(),
            [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  Positions result;
  for (const RowRange& range : positions) {
    if (!result.empty() && range.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, range.end);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

}  // namespace

ResidentRows::ResidentRows(const TableSource& source, std::span<const LayerRows> only)
    : chunk_rows_(std::max<std::uint64_t>(1, kChunkBytes / source.layout.row_bytes())) {
  Positions positions;
  if (only.empty()) positions.push_back({0, source.held_count()});
  for (const LayerRows& rows : only) {
    if (rows.layer_id != source.layer_id) continue;
    const Positions more = positions_of(source, rows.rows);
    positions.insert(positions.end(), more.begin(), more.end());
  }
  for (const RowRange& range : joined(std::move(positions))) {
    runs_.push_back({range.begin, count_, range.count(), chunks_.size()});
    for (std::uint64_t at = 0; at < range.count(); at += chunk_rows_) {
      chunks_.push_back({range.begin + at, count_ + at, std::min(chunk_rows_, range.count() - at)});
    }
    count_ += range.count();
  }
  whole_ = count_ == source.held_count();
  there_ = std::vector<std::atomic<bool>>(chunks_.size());
}

std::optional<std::uint64_t> ResidentRows::find(std::uint64_t position) const {
  auto run = std::upper_bound(runs_.begin(), runs_.end(), position,
                              [](std::uint64_t at, const Run& r) { return at < r.position; });
  if (run == runs_.begin()) return std::nullopt;
  --run;
  const std::uint64_t inside = position - run->position;
  if (inside >= run->count) return std::nullopt;
  // Acquire: what was written before it was marked is seen.
  const std::size_t chunk = run->first_chunk + static_cast<std::size_t>(inside / chunk_rows_);
  if (!there_[chunk].load(std::memory_order_acquire)) return std::nullopt;
  return run->first + inside;
}

Status ResidentRows::load(int threads, std::size_t row_bytes, const Progress& progress,
                          const std::function<Status(const Chunk&)>& load) {
  const std::thread::id caller = std::this_thread::get_id();
  return parallel_for(chunks_.size(), threads, [&](std::size_t i) -> Status {
    ENGRAM_TRY(load(chunks_[i]));
    there_[i].store(true, std::memory_order_release);
    loaded_.fetch_add(chunks_[i].count, std::memory_order_release);
    if (progress && std::this_thread::get_id() == caller) {
      progress(loaded_rows() * row_bytes, count_ * row_bytes);
    }
    return {};
  });
}

}  // namespace engram
