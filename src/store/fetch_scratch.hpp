// What FetchScratch holds: a reader of its own, a plan of reads, and the rows they brought.
#pragma once

#include <memory>
#include <vector>

#include "engram/row_store.hpp"

#include "os/block_reader.hpp"

namespace engram {

struct FetchScratch::Impl final : os::BlockSink {
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

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() override;

  // A reader of this method, kept for the next fetch.
  Status make_reader(ReadMethod method);
  // Covers `wants` with aligned reads, sorted; neighbours that touch share one.
  void plan();
  // Copies what a read brought to its places, after a check of its pages.
  Status take(std::size_t read, std::span<const std::byte> bytes) override;

  ReadMethod asked = ReadMethod::automatic;  // that `reader` was made for
  std::unique_ptr<os::BlockReader> reader;
  const TableSource* source = nullptr;  // of the fetch at hand
  std::vector<Want> wants;
  std::vector<os::BlockRead> reads;
  std::vector<Window> windows;
  std::vector<std::byte> rows;
  ReadCounts counts;
  std::unique_ptr<PendingFetch> held;  // of a store of another library

  // What a store leaves to another one: rows, their places in the request, and their views.
  struct Rest {
    std::vector<RowId> rows;
    std::vector<std::size_t> places;
    std::vector<RowView> views;
  } rest;

 private:
  Status check_pages(const os::BlockRead& from, std::span<const std::byte> bytes) const;
};

}  // namespace engram
