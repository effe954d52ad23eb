// Huge-page buffers, and how much memory is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engram/status.hpp"

namespace engram::os {

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
