// Huge-page buffers, and how much memory is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram::os {

// Zeroed private memory in huge pages, aligned to 2 MiB. Movable.
class HugeBuffer {
 public:
  // Transparent pages: address space only, pages arrive when first written. Reserved ones are taken
  // from their pool at once. Code::out_of_memory.
  static Result<HugeBuffer> allocate(std::size_t size_bytes,
                                     HugePages pages = HugePages::transparent);
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  ~HugeBuffer();

  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }
  // How much of it the kernel backs with huge pages now (AnonHugePages of /proc/self/smaps);
  // 0 where that cannot be read.
  std::uint64_t huge_bytes() const;
  // Never to be swapped from now on. Code::out_of_memory names the limit.
  Status lock() const;

 private:
  HugeBuffer(std::byte* data, std::size_t size_bytes, HugePages pages)
      : data_(data), size_bytes_(size_bytes), pages_(pages) {}
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  HugePages pages_ = HugePages::transparent;
};

// Advises towards huge pages; nothing where the kernel has none to give.
void prefer_huge_pages(std::span<std::byte> bytes);

// Memory that can still be had without swapping: the smaller of MemAvailable and what the
// process's cgroup leaves. UINT64_MAX where neither is known.
std::uint64_t available_memory_bytes();

}  // namespace engram::os
