// Address space: read-only file mappings, huge-page buffers, and how much memory is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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

 private:
  Mapping(const std::byte* data, std::size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  const std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Zeroed private memory, aligned to 2 MiB and advised towards huge pages. Movable.
class HugeBuffer {
 public:
  // Address space only: pages arrive when first written. Code::out_of_memory.
  static Result<HugeBuffer> allocate(std::size_t size_bytes);
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  ~HugeBuffer();

  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }
  // How much of it the kernel backs with huge pages now (AnonHugePages of /proc/self/smaps);
  // 0 where that cannot be read.
  std::uint64_t huge_bytes() const;

 private:
  HugeBuffer(std::byte* data, std::size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Memory that can still be had without swapping: the smaller of MemAvailable and what the
// process's cgroup leaves. UINT64_MAX where neither is known.
std::uint64_t available_memory_bytes();

}  // namespace engram::os
