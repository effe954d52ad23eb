// Which rows of a table are kept in memory, and which of those are there by now.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engram/row_store.hpp"

namespace engram {

// Rows are numbered anew in the order of their positions. Loading and asking are safe together.
class ResidentRows {
 public:
  // A stretch that is loaded at once. Chunks follow each other in `first`, without gaps.
  struct Chunk {
    std::uint64_t position;  // in the file
    std::uint64_t first;     // number of its first row
    std::uint64_t count;
  };

  // All rows that the source holds, or those of `only`.
  ResidentRows(const TableSource& source, std::span<const LayerRows> only);

  // Rows to keep.
  std::uint64_t count() const { return count_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }

  // The number of the row at a position; nothing where it is not kept, or not there yet.
  std::optional<std::uint64_t> find(std::uint64_t position) const;
  // Whether every row that the source holds is there.
  bool complete() const { return whole_ && loaded_rows() == count_; }
  std::uint64_t loaded_rows() const { return loaded_.load(std::memory_order_acquire); }
  // Calls load(chunk) for every chunk on so many threads, each of which is there once it returns.
  // Reports bytes of `row_bytes` each from the calling thread.
  Status load(int threads, std::size_t row_bytes, const Progress& progress,
              const std::function<Status(const Chunk&)>& load);

 private:
  // A run of kept rows without a gap.
  struct Run {
    std::uint64_t position;
    std::uint64_t first;
    std::uint64_t count;
    std::size_t first_chunk;
  };

  bool whole_;
  std::uint64_t chunk_rows_;
  std::uint64_t count_ = 0;
  std::vector<Run> runs_;
  std::vector<Chunk> chunks_;
  std::vector<std::atomic<bool>> there_;  // [chunks]
  std::atomic<std::uint64_t> loaded_{0};
};

}  // namespace engram
