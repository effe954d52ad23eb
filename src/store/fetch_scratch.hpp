// What FetchScratch holds: a reader of its own, a plan of reads, and the rows they brought.
#pragma once

#include <memory>
#include <vector>

#include "engram/row_store.hpp"

#include "os/block_reader.hpp"

namespace engram {

struct FetchScratch::Impl {
  // A stretch of a file that goes to a place in `rows`.
  struct Want {
    const os::DirectFile* file;
    std::uint64_t offset;
    std::uint32_t bytes;
    std::uint64_t place;  // in rows
  };
  // Wants [first_want, end_want) of the sorted plan lie in read i.
  struct Window {
    std::size_t first_want;
    std::size_t end_want;
  };

  ReadMethod asked = ReadMethod::automatic;  // that `reader` was made for
  std::unique_ptr<os::BlockReader> reader;
  std::vector<Want> wants;
  std::vector<os::BlockRead> reads;
  std::vector<Window> windows;
  std::vector<std::byte> rows;
};

}  // namespace engram
