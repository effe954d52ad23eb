// What the machine itself can do: the other half of every measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engram/row_store.hpp"

namespace engram::cli {

// Loads one byte of each of the rows' cache lines, five for 264 bytes: the least that reading rows
// from memory can cost. Returns their sum, so that no compiler leaves it out.
std::uint64_t touch_lines(std::span<const RowView> views, const RowLayout& layout);

// Reads a buffer of `bytes` on `threads` threads: the bandwidth that weights are streamed at.
class Stream {
 public:
  explicit Stream(std::size_t bytes) : words_(bytes / sizeof(std::uint64_t), 1) {}
  std::uint64_t read(int threads) const;

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace engram::cli
