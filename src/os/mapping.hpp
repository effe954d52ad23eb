// Files mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engram/status.hpp"

namespace engram::os {

// A whole file or several end to end, mapped read-only and shared. Movable. Reading it is safe from
// any thread. The size is checked when it is made; a file that shrinks afterwards makes a read of
// the lost pages a SIGBUS, which no library can turn into an error: replace table files, never
// rewrite them.
class Mapping {
 public:
  // Random access advice: without it the kernel reads megabytes ahead of every 264-byte row
  // (measured: 78 rows/s instead of 8,500 from a cold disk).
  // Several files follow each other without a gap; each but the last must be whole pages
  // (Code::unsupported). Requires one path at least.
  static Result<Mapping> open_random(std::span<const std::string> paths);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  // Lets the kernel begin to read [offset, offset + size); does not wait. Advice only, a system
  // call.
  void will_need(std::uint64_t offset, std::size_t size) const;
  // Of `samples` pages spread evenly, how many are in memory.
  std::size_t resident_pages(std::size_t samples) const;

 private:
  struct File {
    int descriptor;
    std::uint64_t begin;  // in the mapping
    std::uint64_t size_bytes;
  };
  Mapping() = default;
  Status open(const std::string& path);
  const std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  std::vector<File> files_;
};

}  // namespace engram::os
