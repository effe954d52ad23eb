// Memory that has a name on this host and outlives the process that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engram/status.hpp"

namespace engram::os {

// A file of /dev/shm, mapped. The one that fills it holds a lock until it is destroyed, however its
// process ends. Movable.
class SharedMemory {
 public:
  // New, zeroed, writable and locked. Code::invalid_argument where the name is taken or not
  // allowed.
  static Result<SharedMemory> create(const std::string& name, std::uint64_t size_bytes);
  // Read-only. Code::not_found; Code::corrupt where another user than this process's or root owns
  // it.
  static Result<SharedMemory> attach(const std::string& name);
  // Takes the name away. Code::not_found; Code::unavailable while its maker holds the lock.
  static Status remove(const std::string& name);
  // Bytes that could still be put into all such memory.
  static Result<std::uint64_t> free_bytes();

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  const std::string& path() const { return path_; }
  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }
  // Takes pages for a stretch, so that writing there cannot fail. Code::out_of_memory.
  Status reserve(std::uint64_t offset, std::uint64_t size_bytes) const;
  // Whether the one that makes it is still at it.
  bool being_made() const;

 private:
  SharedMemory() = default;
  Status map(int protection);
  std::string path_;
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace engram::os
